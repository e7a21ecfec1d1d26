package dev.godwit.grpc

import java.io.File
import java.nio.file.Files
import java.util.concurrent.TimeUnit

/** A real server in a process of its own, on a data folder of its own. */
class Server(private vararg val flags: String) : AutoCloseable {
    private val folder = Files.createTempDirectory("godwit-kotlin-grpc-").toFile()
    private val log = File(folder, "test.log")
    private var process: Process? = null

    var http = "127.0.0.1:0"
        private set
    var grpc = "127.0.0.1:0"
        private set

    init {
        start()
    }

    /** Starts the process, after the first time on the same ports. */
    fun start() {
        val addresses = File(folder, "addresses.json")
        addresses.delete()
        val command = listOf(binary, "serve", "--data", folder.path, "--http-addr", http, "--grpc-addr", grpc, "--min-free", "1MB") + flags
        val process = ProcessBuilder(command).redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.appendTo(log)).start()
        this.process = process
        val end = System.nanoTime() + TimeUnit.MINUTES.toNanos(2)
        while (!addresses.exists()) {
            check(process.isAlive) { "the server has exited: ${log.readText()}" }
            check(System.nanoTime() < end) { "the server does not start: ${log.readText()}" }
            Thread.sleep(PAUSE)
        }
        val text = addresses.readText()
        http = address(text, "http")
        grpc = address(text, "grpc")
    }

    private fun address(text: String, name: String) = checkNotNull(Regex("\"$name\":\\s*\"([^\"]+)\"").find(text)) { "no $name in $text" }.groupValues[1]

    /** Ends the process as a power cut would. */
    fun kill() {
        process?.destroyForcibly()?.waitFor()
    }

    override fun close() {
        kill()
        folder.deleteRecursively()
    }

    private companion object {
        const val PAUSE = 10L
        val binary = checkNotNull(System.getenv("GODWIT_BINARY")) { "GODWIT_BINARY names the server that is tested: run make kotlin-test" }
    }
}
