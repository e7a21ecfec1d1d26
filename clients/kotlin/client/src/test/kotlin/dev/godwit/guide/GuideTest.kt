package dev.godwit.guide

import dev.godwit.support.repository
import java.io.File
import kotlin.test.Test
import kotlin.test.assertTrue

/** What pages show of this client compiles, since it stands in a source file of the tests. */
class GuideTest {
    private val kotlin = lines(File("src/test/kotlin/dev/godwit/guide/Snippets.kt")) + lines(File("../grpc/src/test/kotlin/dev/godwit/grpc/Snippets.kt"))
    private val java = lines(File("src/test/java/dev/godwit/JavaProgramTest.java"))

    private fun lines(file: File) = file.readLines().joinToString("\n") { it.trim() }

    private fun snippets(text: String, language: String) =
        Regex("```$language\n(.*?)```", RegexOption.DOT_MATCHES_ALL).findAll(text).map { it.groupValues[1] }.toList()

    private fun check(page: String, text: String) {
        val found = snippets(text, "kotlin").map { it to kotlin } + snippets(text, "java").map { it to java }
        assertTrue(found.isNotEmpty(), "$page shows nothing")
        for ((snippet, source) in found) {
            val trimmed = snippet.trim().lines().joinToString("\n") { it.trim() }
            assertTrue(trimmed in source, "$page shows what no test compiles:\n$snippet")
        }
    }

    @Test
    fun `the README compiles`() = check("README.md", File("../README.md").readText())

    @Test
    fun `the guide to phones compiles`() {
        val guide = File(repository, "docs/guides/phones.md").readText()
        check("phones.md", guide.substringAfter("## 3. The app on Android").substringBefore("\n## "))
    }
}
