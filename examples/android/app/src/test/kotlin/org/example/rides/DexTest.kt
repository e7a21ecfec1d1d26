package org.example.rides

import org.junit.Rule
import org.junit.Test
import org.junit.rules.TemporaryFolder
import java.io.File
import kotlin.test.assertEquals
import kotlin.test.assertTrue

/** The app and the libraries become what Android 6 runs, by the tool with which Android's build tools do it. */
class DexTest {
    @get:Rule val folder = TemporaryFolder()

    /** What the two call. */
    private val libraries = listOf("kotlin-stdlib", "kotlinx-coroutines-core", "kotlinx-serialization", "okhttp", "okio")

    @Test
    fun `the app becomes DEX for Android 6`() {
        val entries = System.getProperty("java.class.path").split(File.pathSeparator).map(::File)
        val app = entries.filter { it.name.startsWith("godwit-") } + classes()
        val called = entries.filter { file -> libraries.any { file.name.startsWith(it) } }.flatMap { listOf("--classpath", it.path) }
        val framework = entries.single { it.name.startsWith("android-all-") }
        val home = System.getProperty("java.home")
        val java = File(home, "bin/java").path
        val out = folder.newFolder()
        val command = listOf(java, "-Xmx1g", "-XX:TieredStopAtLevel=1", "-cp", System.getProperty("java.class.path"), "com.android.tools.r8.D8") +
            listOf("--release", "--min-api", "23", "--lib", framework.path, "--lib", home, "--output", out.path) + called + app.map { it.path }
        val process = ProcessBuilder(command).redirectErrorStream(true).start()
        val said = process.inputStream.bufferedReader().readText()
        assertEquals(0, process.waitFor(), said)
        assertTrue(said.lines().none { it.startsWith("Warning") }, said)
        assertTrue(File(out, "classes.dex").readBytes().decodeToString(0, DEX.length).startsWith(DEX))
    }

    private fun classes() = File("target/classes").walk().filter { it.extension == "class" }.toList()

    private companion object {
        const val DEX = "dex\n"
    }
}
