package dev.godwit

import dev.godwit.messaging.objects.ObjectKey
import dev.godwit.messaging.objects.formatDigest
import dev.godwit.messaging.objects.parseDigest
import dev.godwit.support.text
import dev.godwit.support.vectors
import dev.godwit.wire.durationMillis
import dev.godwit.wire.isName
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.jsonPrimitive
import kotlinx.serialization.json.long
import org.junit.jupiter.api.Test
import kotlin.test.assertEquals
import kotlin.test.assertNull

class VectorsTest {
    @Test
    fun names() {
        for (c in vectors("names")) assertEquals(c.text("valid") == "true", isName(c.text("name")), "\"${c.text("name")}\"")
    }

    @Test
    fun durations() {
        for (c in vectors("durations")) assertEquals(c["ms"]?.jsonPrimitive?.long, durationMillis(c.text("text")), "\"${c.text("text")}\"")
    }

    @Test
    fun digests() {
        for (c in vectors("digests")) {
            val sum = c.getValue("objects").jsonArray.sumOf { ObjectKey(it.jsonObject.text("group"), it.jsonObject.text("object")).hash }
            assertEquals(c.text("digest"), formatDigest(sum))
            assertEquals(sum, parseDigest(c.text("digest")))
        }
        for (bad in listOf("", "xyz", "1", "00000000000000000", "-000000000000001")) assertNull(parseDigest(bad), bad)
    }
}
