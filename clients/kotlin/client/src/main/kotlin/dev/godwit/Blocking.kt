package dev.godwit

import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.runInterruptible
import kotlinx.coroutines.withTimeoutOrNull
import java.util.concurrent.TimeUnit
import kotlin.coroutines.Continuation
import kotlin.coroutines.intrinsics.suspendCoroutineUninterceptedOrReturn

/** The library for programs without coroutines, as those in Java. Threads are blocked and interrupted where a coroutine would wait and be cancelled. */
public object Blocking {
    /** A suspending function of this library, as Java sees it. */
    public fun interface Call<T> {
        /** Calls the function and hands [done] to it as the last argument. */
        public fun with(done: Continuation<T>): Any?
    }

    /**
     * Waits for a suspending function: `Receipt r = Blocking.get(done -> Publishing.publish(client, publication, done))`.
     *
     * @throws GodwitException as the function does
     */
    @JvmStatic
    @Throws(GodwitException::class, InterruptedException::class)
    @Suppress("UNCHECKED_CAST")
    public fun <T> get(call: Call<T>): T = get(Long.MAX_VALUE, TimeUnit.MILLISECONDS, call) as T

    /** [get] within a time; null: the function has not returned by then, and was cancelled. */
    @JvmStatic
    @Throws(GodwitException::class, InterruptedException::class)
    public fun <T> get(timeout: Long, unit: TimeUnit, call: Call<T>): T? = runBlocking { withTimeoutOrNull(unit.toMillis(timeout)) { await(call) } }

    @Suppress("UNCHECKED_CAST")
    private suspend fun <T> await(call: Call<T>): T = suspendCoroutineUninterceptedOrReturn { call.with(it) }
}
