package dev.godwit

import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.cancel
import kotlinx.coroutines.launch
import java.util.concurrent.CountDownLatch
import java.util.concurrent.TimeUnit

/** A listener that runs beside the program, of [GodwitClient.start]. */
public class Listening internal constructor(run: suspend () -> Nothing) : AutoCloseable {
    private val scope = CoroutineScope(Dispatchers.Default)
    private val done = CountDownLatch(1)

    @Volatile private var failure: Throwable? = null

    init {
        val listening = scope.launch {
            try {
                run()
            } catch (e: CancellationException) {
                throw e
            } catch (e: Exception) {
                failure = e // of await
            }
        }
        listening.invokeOnCompletion { done.countDown() }
    }

    /** Asks the listener to end and returns at once. Running handlers are interrupted. */
    public fun stop(): Unit = scope.cancel()

    /** Ends the listener and waits until the running handlers have returned and their acknowledgements were sent. Not to be called by a handler. */
    override fun close() {
        stop()
        done.await()
    }

    /**
     * Waits until the listener has ended. False: it has not within [timeout].
     *
     * @throws RefusedException if the server refused the client
     */
    @Throws(GodwitException::class, InterruptedException::class)
    public fun await(timeout: Long, unit: TimeUnit): Boolean {
        if (!done.await(timeout, unit)) return false
        failure?.let { throw it }
        return true
    }
}
