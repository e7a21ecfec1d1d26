package org.example.rides

import org.junit.Rule
import org.junit.Test
import org.junit.rules.TemporaryFolder
import java.io.File
import kotlin.test.assertEquals
import kotlin.test.assertTrue

/** The app and all that it brings along become what Android 6 runs, by the tool with which Android's build tools do it. */
class DexTest {
    @get:Rule val folder = TemporaryFolder()

    /** The libraries of the app; the others are the framework's and those of tests. */
    private val libraries = listOf("godwit-client", "kotlin-stdlib", "kotlinx-coroutines-core", "kotlinx-serialization", "okhttp", "okio", "annotations-13")

    @Test
    fun `the app becomes DEX for Android 6`() {
        val entries = System.getProperty("java.class.path").split(File.pathSeparator).map(::File)
        val app = entries.filter { file -> libraries.any { file.name.startsWith(it) } } + classes()
        val framework = entries.single { it.name.startsWith("android-all-") }
        val java = File(System.getProperty("java.home"), "bin/java").path
        val out = folder.newFolder()
        val command = listOf(java, "-Xmx1g", "-XX:TieredStopAtLevel=1", "-cp", System.getProperty("java.class.path"), "com.android.tools.r8.D8") +
            listOf("--release", "--min-api", "23", "--lib", framework.path, "--output", out.path) + app.map { it.path }
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
