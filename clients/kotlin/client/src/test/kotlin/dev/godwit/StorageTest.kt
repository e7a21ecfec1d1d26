package dev.godwit

import dev.godwit.messaging.Objects
import dev.godwit.messaging.RegistrationStatus
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.io.TempDir
import java.io.File
import java.io.IOException
import java.nio.file.Path
import kotlin.test.assertEquals
import kotlin.test.assertFailsWith
import kotlin.test.assertFalse
import kotlin.test.assertTrue

class StorageTest {
    @TempDir lateinit var folder: Path

    private fun file(content: String? = null) = File(folder.toFile(), "state.json").apply { content?.let(::writeText) }

    @Test
    fun `what another language stored is read`() {
        val go = """
            {"format": 1, "owner": {"app":"rides","recipient":"unit-7","device":"unit-7"}, "objects": [
             {"group":"site","object":"a","status":"registered","version":"7"},
             {"group":"site","object":"b","status":"pending unregistration","version":"0","unknown":true,"floor":"3"}]}
        """.trimIndent()
        val objects = Objects("site", FileStorage(file(go)))
        assertEquals(listOf("a" to 7L, "b" to 0L), objects.list().map { it.name to it.version })
        assertEquals(RegistrationStatus.PENDING_UNREGISTRATION, objects.status("b").status)

        val seen = Deduplicator(FileStorage(file("""{"format":1,"ids":[{"id":"a"},{"id":"b","settled":"2126-11-21T00:00:00.123Z"}]}""")))
        assertEquals(listOf("a"), seen.held())
        assertTrue(seen.seen("b"))
    }

    @Test
    fun `state that cannot be understood is set aside`() {
        val broken =
            listOf(
                "",
                "{",
                "[]",
                """{"format":0}""",
                """{"format":1,"objects":[{"group":"a b","object":"x","status":"registered"}]}""",
                """{"format":1,"objects":[{"group":"g","object":"x","status":"gone"}]}""",
            )
        for (content in broken) {
            assertEquals(emptyList(), Objects("site", FileStorage(file(content))).list(), content)
            assertFalse(file().exists(), content)
            assertEquals(content, File(file().path + ".bad").readText())
        }
        assertFalse(Deduplicator(FileStorage(file("{"))).seen("a"))
    }

    @Test
    fun `state of a later version is left alone`() {
        assertFailsWith<IOException> { Objects("site", FileStorage(file("""{"format":2,"objects":[]}"""))) }
        assertFailsWith<IOException> { Deduplicator(FileStorage(file("""{"format":2,"ids":[]}"""))) }
        assertTrue(file().exists())
    }

    @Test
    fun `a file is replaced as a whole`() {
        val storage = FileStorage(file())
        assertEquals(null, storage.read())
        storage.write("one".encodeToByteArray())
        File(file().path + ".new").writeText("half of wh") // a kill while it was written
        assertEquals("one", storage.read()?.decodeToString())
        storage.write("two".encodeToByteArray())
        assertEquals("two", storage.read()?.decodeToString())
        assertEquals(listOf("state.json"), folder.toFile().list().orEmpty().toList())
    }

    @Test
    fun `an id that settled a day ago is new`() {
        val seen = Deduplicator(MemoryStorage().apply { write("""{"format":1,"ids":[{"id":"a","settled":"2026-01-01T00:00:00Z"}]}""".encodeToByteArray()) })
        assertFalse(seen.seen("a"))
    }
}
