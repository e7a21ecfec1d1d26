package dev.godwit

import org.junit.jupiter.api.Test
import java.io.File
import kotlin.test.assertEquals

class KDocTest {
    @Test
    fun `all that is public is documented`() {
        val bare = sequenceOf("client", "push", "messaging", "backend", "grpc").flatMap {
            File("../$it/src/main/kotlin").walk()
        }.filter { it.extension == "kt" }.flatMap { file ->
            val lines = file.readLines().map { it.trim() }
            lines.indices.filter { Regex("public (?!companion object \\{)").containsMatchIn(lines[it].takeWhile { c -> c != '"' }) && !documented(lines, it) }
                .map { "${file.name}:${it + 1} ${lines[it]}" }
        }.filter { "override" !in it && "public constructor" !in it }.toList()
        assertEquals(emptyList(), bare)
    }

    private fun documented(lines: List<String>, at: Int): Boolean {
        val before = (at - 1 downTo 0).map { lines[it] }.first { !it.startsWith("@") && it.isNotEmpty() }
        return before.endsWith("*/") || lines[at].startsWith("*") || lines[at].startsWith("//") || "private set" in lines[at]
    }
}
