package dev.godwit

import dev.godwit.backend.Publication
import dev.godwit.backend.ask
import dev.godwit.backend.askRecipient
import dev.godwit.backend.awaitSettled
import dev.godwit.backend.declareUnknown
import dev.godwit.backend.getObject
import dev.godwit.backend.listObjects
import dev.godwit.backend.publish
import dev.godwit.backend.publishBatch
import dev.godwit.backend.publishMessage
import dev.godwit.backend.publishTo
import dev.godwit.backend.putObject
import dev.godwit.backend.recall
import dev.godwit.backend.registrations
import dev.godwit.backend.status
import dev.godwit.messaging.Objects
import dev.godwit.messaging.RequestHandler
import dev.godwit.messaging.Topics
import dev.godwit.messaging.objects
import dev.godwit.messaging.queue
import dev.godwit.messaging.requests
import dev.godwit.messaging.subjects
import dev.godwit.messaging.topics
import dev.godwit.support.Server
import dev.godwit.support.listening
import dev.godwit.support.realTime
import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.awaitCancellation
import kotlinx.coroutines.channels.Channel
import kotlinx.coroutines.flow.onEach
import kotlinx.coroutines.flow.take
import kotlinx.coroutines.flow.toList
import org.junit.jupiter.api.AfterAll
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.TestInstance
import java.io.File
import java.util.concurrent.TimeUnit
import kotlin.test.assertContentEquals
import kotlin.test.assertEquals
import kotlin.test.assertFailsWith
import kotlin.test.assertFalse
import kotlin.test.assertIs
import kotlin.test.assertNotEquals
import kotlin.test.assertNotNull
import kotlin.test.assertTrue

/** Against a real server. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
class ServerTest {
    private val server = Server.development()
    private val client = server.client()

    @AfterAll
    fun stop() {
        client.close()
        server.close()
    }

    @Test
    fun `a published notification arrives whole and is acknowledged`() = realTime {
        listening(client, "whole", { device = "phone" }) { got ->
            val published = listOf(
                Publication("whole").apply {
                    title = "New ride"
                    body = "2.1 km away"
                    category = "NEW_RIDE"
                    data = """{"fare":120}""".encodeToByteArray()
                    priority = Priority.HIGH
                    ttlMillis = 60_000
                },
                Publication("whole").apply { data = "two\nlines ☂".encodeToByteArray() },
                Publication("whole").apply { data = byteArrayOf(0, -1, -128, 10) },
                Publication("whole").apply {
                    data = "\"quoted\"".encodeToByteArray()
                    contentType = "application/vnd.x+json"
                },
                Publication("whole").apply { category = "PING" },
            )
            for (p in published) {
                val receipt = client.publish(p)
                assertEquals(listOf(p.id, "stored", false), listOf(receipt.id, receipt.status, receipt.duplicate))
                val n = got.notifications.receive()
                assertEquals(listOf(p.id, p.title, p.body, p.category), listOf(n.id, n.title, n.body, n.category))
                assertContentEquals(p.data, n.data)
                assertEquals(p.priority, n.priority)
                assertEquals(1, n.attempt)
                assertEquals(receipt.expiresAt, n.expiresAt)
                assertTrue(assertNotNull(n.createdAt) < assertNotNull(n.expiresAt))
                val status = client.awaitSettled(p.id, p.to)
                assertEquals("acked", status.status)
                assertNotNull(status.ackedAt)
            }
        }
    }

    @Test
    fun `the same id is a duplicate and other content a conflict`() = realTime {
        val p = Publication("duplicate").apply { title = "one" }
        client.publish(p)
        assertTrue(client.publish(p).duplicate)
        p.title = "two"
        val e = assertFailsWith<ServerException> { client.publish(p) }
        assertEquals(409 to "/problems/id-conflict", e.status to e.type)
    }

    @Test
    fun `lists and batches answer for every recipient in order`() = realTime {
        val receipts = client.publishTo(listOf("a", "not a name", "b"), Publication().apply { title = "x" })
        assertEquals(listOf("stored", "", "stored"), receipts.map { it.status })
        assertEquals(400, assertIs<ServerException>(receipts[1].error).status)

        val publications = List(10_100) {
            // more than one request takes
            Publication(if (it == 7) "no name" else "r${it % 100}").apply {
                title = "Hi"
                if (it == 8) {
                    data = "{".encodeToByteArray()
                    contentType = "application/json"
                }
            }
        }
        val all = client.publishBatch(publications)
        assertEquals(publications.map { it.id to it.to }, all.map { it.id to it.to })
        assertEquals(listOf(7, 8), all.indices.filter { all[it].error != null })
    }

    @Test
    fun `a recalled notification is taken back`() = realTime {
        val started = CompletableDeferred<String>()
        val cause = CompletableDeferred<Throwable>()
        listening(client, "recall", handler = { n ->
            started.complete(n.id)
            try {
                awaitCancellation()
            } catch (e: RecalledException) {
                cause.complete(e)
                throw e
            }
        }) { got ->
            client.publish("recall") { title = "Hi" }
            val id = started.await()
            client.recall(id, "recall")
            cause.await()
            assertEquals(listOf(id), got.recalls.receive())
            assertEquals("recalled", client.status(id, "recall").status)
        }
    }

    @Test
    fun `a failed handler gets it again and the second attempt says so`() = realTime {
        listening(client, "again", handler = { n -> if (n.attempt == 1) redeliver(100, "not yet") }) { got ->
            client.publish("again") { title = "Hi" }
            assertEquals(listOf(1, 2), listOf(got.notifications.receive().attempt, got.notifications.receive().attempt))
        }
    }

    @Test
    fun `a reply settles the notification that asked for it`() = realTime {
        listening(client, "reply", handler = { reply(Answer("""{"accept":true}""", "application/json")) }) {
            val receipt = client.publish("reply") {
                title = "Take it?"
                replyByMillis = 60_000
            }
            val status = client.awaitSettled(receipt.id, "reply")
            assertEquals("replied", status.status)
            assertEquals("""{"accept":true}""", assertNotNull(status.reply).text)
        }
    }

    @Test
    fun `peek sees without settling`() = realTime {
        listening(client, "peek", { peek = true }) { got ->
            val receipt = client.publish("peek") { title = "Hi" }
            got.notifications.receive()
            assertFalse(client.status(receipt.id, "peek").settled)
        }
    }

    @Test
    fun `what is shown and was settled meanwhile is recalled at connect`() = realTime {
        val receipt = client.publish("held") { title = "Hi" }
        client.recall(receipt.id)
        listening(client, "held", { held = { listOf(receipt.id) } }) { got -> assertEquals(listOf(receipt.id), got.recalls.receive()) }
    }

    @Test
    fun `a flow acknowledges what its collector asked to be followed`() = realTime {
        val ids = List(3) { client.publish("flow") { title = "$it" }.id }
        val answering: ListenOptions.() -> Unit = { requests = RequestHandler { Answer("here") } }
        val got = client.notifications("flow", answering).take(3).onEach {
            client.askRecipient("flow", "here?".encodeToByteArray()) // an acknowledgement would have left with the answer
            assertNotEquals("acked", client.status(it.id, "flow").status)
        }.toList()
        assertEquals(ids, got.map { it.id })
        assertEquals(listOf("acked", "acked"), ids.take(2).map { client.awaitSettled(it, "flow").status })
        assertNotEquals("acked", client.status(ids.last(), "flow").status)
    }

    @Test
    fun `a program without coroutines listens`() = realTime {
        val handled = Channel<String>(Channel.UNLIMITED)
        val listening = client.start("blocking", ListenOptions()) { _, n -> handled.trySend(n.id) }
        val receipt = client.publish("blocking") { title = "Hi" }
        assertEquals(receipt.id, handled.receive())
        listening.close()
        assertTrue(listening.await(0, TimeUnit.SECONDS))
        assertEquals("acked", client.awaitSettled(receipt.id, "blocking").status)
    }

    @Test
    fun `objects are followed to their latest version`() = realTime {
        val signals = Channel<Signal>(Channel.UNLIMITED)
        val file = File(server.folder, "objects.json")
        val objects = Objects("region-1", FileStorage(file))
        objects.register("camera-config") { signals.send(it) }
        listening(client, "unit-7", {
            device = "unit-7"
            this.objects = objects
        }) {
            assertTrue(signals.receive().unknown) // nobody has put it yet
            objects.settled()
            assertTrue(client.putObject("region-1", "camera-config", """{"iso":400}""".encodeToByteArray(), version = 7).changed)
            val s = signals.receive()
            assertEquals(7 to """{"iso":400}""", s.version.toInt() to s.text)
            client.declareUnknown("region-1", "camera-config")
            assertTrue(signals.receive().unknown)
            client.putObject("region-1", "camera-config", version = 8)
            assertEquals(8, signals.receive().version)
        }
        assertEquals(listOf("unit-7"), client.registrations("region-1", "camera-config").map { it.recipient })

        // The next run of the program gets only what it missed.
        val again = Objects("region-1", FileStorage(file))
        assertEquals(listOf(8L), again.list().map { it.version })
        again.register("camera-config") { signals.send(it) }
        client.putObject("region-1", "camera-config", version = 9)
        listening(client, "unit-7", {
            device = "unit-7"
            this.objects = again
        }) { assertEquals(9, signals.receive().version) }
        assertEquals(9, client.getObject("region-1", "camera-config").version)
        client.listObjects("region-1", "camera").collect { assertEquals("camera-config", it.name) }
    }

    @Test
    fun `topics bring their messages`() = realTime {
        val messages = Channel<Message>(Channel.UNLIMITED)
        val topics = Topics { messages.send(it) }
        topics.subscribe("rides.*")
        listening(client, "dashboard", { this.topics = topics }) {
            topics.active()
            client.publishMessage("rides.oslo", """{"fare":120}""".encodeToByteArray())
            client.publishMessage("rides.bergen", "text".encodeToByteArray())
            val got = listOf(messages.receive(), messages.receive())
            assertEquals(listOf("rides.oslo" to """{"fare":120}""", "rides.bergen" to "text"), got.map { it.topic to it.text })
        }
    }

    @Test
    fun `a worker answers requests and a client those to its recipient`() = realTime {
        listening(client, "worker-1", {
            subjects = listOf("orders.>")
            queue = "orders"
            requests = RequestHandler { r ->
                if (r.text == "broken") error("secret")
                Answer("made ${r.text} for ${r.subject}", status = 201)
            }
        }) { got ->
            got.serving.await()
            val answer = client.ask("orders.create", "tea".encodeToByteArray(), "text/plain")
            assertEquals(201 to "made tea for orders.create", answer.status to answer.text)
            val failed = client.ask("orders.create", "broken".encodeToByteArray(), "text/plain")
            assertEquals(500 to "", failed.status to failed.text)
            assertEquals("secret", got.failures.receive().message)
            assertEquals(201, client.askRecipient("worker-1", "tea".encodeToByteArray(), "text/plain").status)
        }
        val nobody = assertFailsWith<ServerException> { client.ask("orders.create", ByteArray(0)) }
        assertTrue(nobody.nobodyServes)
    }

    @Test
    fun `an inbox tells of its changes and is read and marked`() = realTime {
        listening(client, "inbox") { got ->
            got.welcomes.receive() // which would have told the counts alone
            val receipt = client.publish("inbox") {
                title = "Kept"
                inbox = true
                actions = listOf(Action("yes", "Yes"))
            }
            while (receipt.id !in got.inbox.receive().changed) continue
            val item = client.inbox("inbox").items.single()
            assertEquals(listOf(receipt.id, "Kept", "yes"), listOf(item.id, item.title, item.actions.single().id))
            assertNotNull(client.markInbox("inbox", item.id, read = true).readAt)
            assertEquals(0, client.inboxCounts("inbox").unread)
            assertEquals(1, client.markInboxAll("inbox", InboxMark.ARCHIVED).total)
        }
    }
}
