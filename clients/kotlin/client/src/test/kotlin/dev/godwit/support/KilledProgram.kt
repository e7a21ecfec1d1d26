package dev.godwit.support

import dev.godwit.Deduplicator
import dev.godwit.FileStorage
import dev.godwit.GodwitClient
import dev.godwit.push.GodwitPush
import dev.godwit.push.PushDisplay
import dev.godwit.push.PushMessage
import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.cancelAndJoin
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import java.io.File

/** A program in a process of its own: it shows one notification and ends, or is killed before the acknowledgement leaves. */
object KilledProgram {
    /** The exit code of a killed one. */
    const val KILLED = 137

    fun run(url: String, recipient: String, folder: File, killed: Boolean): Int {
        val java = File(System.getProperty("java.home"), "bin/java").path
        val command = listOf(java, "-cp", System.getProperty("java.class.path"), javaClass.name, url, recipient, folder.path, killed.toString())
        return ProcessBuilder(command).inheritIO().start().waitFor()
    }

    @JvmStatic
    fun main(args: Array<String>) {
        val (url, recipient, folder, killed) = args
        val shown = File(folder, "shown")
        val client = GodwitClient(url)
        val display = object : PushDisplay {
            override fun show(message: PushMessage) = shown.appendText(message.id + "\n")

            override fun close(id: String) = Unit
        }
        val push = GodwitPush(client, Deduplicator(FileStorage(File(folder, "seen.json"))), FileStorage(File(folder, "push.json")), display)
        runBlocking {
            val handled = CompletableDeferred<Unit>()
            val listener = launch {
                client.listen(recipient) { notification ->
                    push.live(notification)
                    if (killed.toBoolean()) Runtime.getRuntime().halt(KILLED)
                    handled.complete(Unit)
                }
            }
            handled.await()
            listener.cancelAndJoin() // its acknowledgement is sent before this returns
        }
        client.close()
    }
}
