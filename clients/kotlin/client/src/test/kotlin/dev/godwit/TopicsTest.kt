package dev.godwit

import dev.godwit.messaging.SubscriptionException
import dev.godwit.messaging.Topics
import dev.godwit.messaging.topics
import dev.godwit.messaging.wire.Subscribe
import dev.godwit.messaging.wire.Unsubscribe
import dev.godwit.support.Script
import dev.godwit.wire.ClientFrame
import dev.godwit.wire.ServerFrame
import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.ExperimentalCoroutinesApi
import kotlinx.coroutines.async
import kotlinx.coroutines.awaitCancellation
import kotlinx.coroutines.test.advanceTimeBy
import kotlinx.coroutines.test.runCurrent
import kotlinx.coroutines.test.runTest
import kotlinx.coroutines.withTimeout
import org.junit.jupiter.api.Test
import kotlin.test.assertEquals
import kotlin.test.assertFailsWith
import kotlin.test.assertFalse
import kotlin.test.assertIs

@OptIn(ExperimentalCoroutinesApi::class)
class TopicsTest {
    private fun message(text: String) = ServerFrame.Messaged(Message("t", text.encodeToByteArray(), "text/plain"), 0)

    @Test
    fun `subscriptions are made again on every connection and the pong confirms them`() = runTest {
        val topics = Topics {}
        val s = Script(this).apply { options.topics = topics }
        topics.subscribe("rides.*")
        topics.subscribeQueue("workers", "jobs.>")
        s.listen(null)
        val active = async { topics.active() }
        runCurrent()
        val frames = listOf(Subscribe(listOf("rides.*")), Subscribe(listOf("jobs.>"), "workers"), ClientFrame.Ping())
        assertEquals<List<ClientFrame>>(frames, s.last.sent.drop(1))
        assertFalse(active.isCompleted)
        s.last.say(ServerFrame.Pong(""))
        active.await()
        s.last.end()
        runCurrent()
        assertEquals<List<ClientFrame>>(frames, s.last.sent.drop(1))
        topics.unsubscribe("rides.*")
        runCurrent()
        assertEquals<ClientFrame>(Unsubscribe(listOf("rides.*")), s.last.sent.last())
        s.end()
    }

    @Test
    fun `a handler that gives up by a time of its own gets the next message`() = runTest {
        val got = ArrayList<String>()
        val s = Script(this)
        s.options.topics = Topics({
            if (it.text == "slow") withTimeout(1_000) { awaitCancellation() }
            got += it.text
        }, s.clock)
        s.listen(null)
        for (text in listOf("slow", "quick")) s.last.say(message(text))
        advanceTimeBy(2_000)
        assertEquals(listOf("quick"), got)
        s.end()
    }

    @Test
    fun `what the server refuses for good is said and gone, and what it refuses for now is tried again`() = runTest {
        val failures = ArrayList<Throwable>()
        val s = Script(this)
        val topics = Topics({}, s.clock)
        s.apply {
            options.topics = topics
            options.events = object : ListenEvents {
                override fun failed(error: Throwable) {
                    failures += error
                }
            }
        }
        topics.subscribe("secret", "busy")
        s.listen(null)
        s.last.say(ServerFrame.Failed("forbidden", "not allowed", "topics", listOf("secret")))
        s.last.say(ServerFrame.Failed("unavailable", "later", "topics", listOf("busy")))
        s.last.sent.clear()
        advanceTimeBy(1_100)
        assertEquals(listOf("secret"), assertIs<SubscriptionException>(failures.single()).topics)
        assertEquals<ClientFrame>(Subscribe(listOf("busy")), s.last.sent.first())
        s.end()
    }

    @Test
    fun `messages that a slow handler leaves are a gap before the next`() = runTest {
        val release = CompletableDeferred<Unit>()
        val told = ArrayList<String>()
        val topics = Topics {
            release.await()
            told += it.text
        }
        topics.onGap = { told += "gap of $it" }
        val s = Script(this).apply { options.topics = topics }.listen(null)
        s.last.say(message("first"))
        runCurrent()
        repeat(4096) { s.last.say(message("m")) }
        repeat(3) { s.last.say(message("lost")) }
        s.last.say(ServerFrame.Messaged(Message("", ByteArray(0), ""), gap = 2))
        runCurrent()
        release.complete(Unit)
        runCurrent()
        assertEquals(listOf("first", "gap of 5"), listOf(told.first(), told.last()))
        assertEquals(4098, told.size)
        s.end()
    }

    @Test
    fun `topics and objects belong to one listener at a time`() = runTest {
        val topics = Topics {}
        val s = Script(this).apply { options.topics = topics }.listen(null)
        assertFailsWith<IllegalStateException> { Script(this).apply { options.topics = topics }.listener(null).run() }
        s.end()
        Script(this).apply { options.topics = topics }.listen(null).end()
    }
}
