package dev.godwit.support

import dev.godwit.GodwitClient
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.jsonObject
import java.io.File
import java.net.HttpURLConnection
import java.net.InetSocketAddress
import java.net.ServerSocket
import java.net.URI
import java.nio.file.Files
import java.util.concurrent.TimeUnit

/** A real server in a process of its own, on a data folder of its own: app demo, key dev, clients without tokens. */
class Server(private vararg val flags: String) : AutoCloseable {
    val folder: File = Files.createTempDirectory("godwit-kotlin-").toFile()
    private val log = File(folder, "test.log")
    private var process: Process? = null

    var address = "127.0.0.1:${freePort()}"
        private set
    val url: String get() = "http://$address"

    init {
        start()
    }

    /** Starts the process, after the first time on the same port. */
    fun start() {
        val addresses = File(folder, "addresses.json")
        addresses.delete()
        val command = listOf(binary, "serve", "--data", folder.path, "--http-addr", address, "--grpc-addr", "off", "--min-free", "1MB") + flags
        val process = ProcessBuilder(command).redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.appendTo(log)).start()
        this.process = process
        eventually("the server is ready") {
            check(process.isAlive) { "the server has exited: ${log.readText()}" }
            addresses.exists() && runCatching { status("/readyz") }.getOrNull() == OK
        }
        address = Json.parseToJsonElement(addresses.readText()).jsonObject.text("http")
    }

    private fun status(path: String): Int = (URI(url + path).toURL().openConnection() as HttpURLConnection).run {
        connectTimeout = PATIENCE
        readTimeout = PATIENCE
        responseCode.also { disconnect() }
    }

    /** Ends the process as a power cut would. */
    fun kill() {
        process?.destroyForcibly()?.waitFor()
    }

    /** Asks the process to end, which says goodbye to its sessions. */
    fun stop() {
        val process = process ?: return
        process.destroy()
        check(process.waitFor(STOP_SECONDS, TimeUnit.SECONDS)) { "the server does not stop: ${log.readText()}" }
    }

    fun client(configure: GodwitClient.Builder.() -> Unit = {}): GodwitClient = GodwitClient(url) {
        apiKey("dev")
        configure()
    }

    override fun close() {
        kill()
        folder.deleteRecursively()
    }

    companion object {
        private const val OK = 200
        private const val PATIENCE = 5_000
        private const val STOP_SECONDS = 60L
        private val binary = checkNotNull(System.getenv("GODWIT_BINARY")) { "GODWIT_BINARY names the server that is tested: run make kotlin-test" }

        fun development() = Server("--dev")
    }
}

fun freePort(): Int = ServerSocket().use {
    it.bind(InetSocketAddress("127.0.0.1", 0))
    it.localPort
}

/** Waits until something holds. */
fun eventually(what: String, holds: () -> Boolean) {
    val end = System.nanoTime() + TimeUnit.MINUTES.toNanos(4)
    while (!holds()) {
        check(System.nanoTime() < end) { "not in time: $what" }
        Thread.sleep(PAUSE)
    }
}

private const val PAUSE = 10L
