package dev.godwit

import dev.godwit.backend.Apns
import dev.godwit.backend.Fcm
import dev.godwit.backend.LiveActivity
import dev.godwit.backend.Preferences
import dev.godwit.backend.QuietHours
import dev.godwit.backend.campaigns
import dev.godwit.backend.channels
import dev.godwit.backend.createCampaign
import dev.godwit.backend.deleteChannel
import dev.godwit.backend.events
import dev.godwit.backend.preferences
import dev.godwit.backend.publish
import dev.godwit.backend.setChannel
import dev.godwit.backend.setPreferences
import dev.godwit.push.Endpoint
import dev.godwit.push.registerEndpoint
import dev.godwit.support.Server
import dev.godwit.support.realTime
import dev.godwit.support.text
import kotlinx.coroutines.async
import kotlinx.coroutines.flow.first
import kotlinx.coroutines.flow.take
import kotlinx.coroutines.flow.toList
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.jsonObject
import mockwebserver3.MockResponse
import mockwebserver3.MockWebServer
import okhttp3.Headers.Companion.headersOf
import org.junit.jupiter.api.Test
import kotlin.test.assertEquals
import kotlin.test.assertFailsWith
import kotlin.test.assertTrue

/** What back ends do beside publishing. */
class BackEndTest {
    private val news = """{"name":"news","content":{"title":"Hello"},"audience":{"recipients":["reader-1","reader-2"],"channels":["webhook"]}}"""

    @Test
    fun `a campaign runs to its end and says what became of each message`() = realTime {
        Server("--dev", "--allow-private-urls").use { server ->
            MockWebServer().use { receiver ->
                receiver.start()
                repeat(2) { receiver.enqueue(MockResponse(200)) }
                val client = server.client()
                client.call(ApiCall("PUT", "channels", "webhook", body = "{}"))
                for (reader in listOf("reader-1", "reader-2")) {
                    client.registerEndpoint(Endpoint("webhook", """{"url":"${receiver.url("/$reader")}"}""", reader))
                }
                val campaign = client.createCampaign(news)
                assertEquals("draft", campaign.status().state)
                val revised = campaign.revise(news.replace("Hello", "Good morning"), campaign.status().revision)
                assertEquals(412, assertFailsWith<ServerException> { campaign.revise(news, "1") }.status)
                assertTrue("Good morning" in revised.json)

                campaign.start()
                val last = campaign.progress().first { it.ended }
                assertEquals(listOf("completed", "2"), listOf(last.state, last.total.toString()))
                assertEquals(2L, last.counts["accepted"])
                assertEquals(setOf("reader-1", "reader-2"), campaign.deliveries("accepted").toList().map { it.recipient }.toSet())
                assertEquals("draft", campaign.clone("again").status().state)
                assertEquals(listOf("again", "news"), client.campaigns().toList().map { it.name })
                campaign.delete()
                assertEquals(404, assertFailsWith<ServerException> { campaign.status() }.status)
            }
        }
    }

    @Test
    fun `events are followed from a place on`() = realTime {
        Server.development().use { server ->
            val client = server.client()
            val coming = async { client.events(types = arrayOf("stored")).take(2).toList() }
            // The first is published until the stream is open.
            while (true) {
                client.publish("driver-42") { title = "again" }
                if (coming.isCompleted) break
                kotlinx.coroutines.yield()
            }
            val (first, second) = coming.await()
            assertEquals(listOf("stored", "driver-42"), listOf(first.type, first.to))
            val next = client.events(first.eventId, "stored").first()
            assertEquals(listOf(second.eventId, second.id), listOf(next.eventId, next.id))
        }
    }

    @Test
    fun `a stream of events that breaks off goes on behind the last one`() = realTime {
        MockWebServer().use { server ->
            server.start()
            server.enqueue(MockResponse(body = "{\"event_id\":\"7\",\"type\":\"acked\",\"to\":\"a\"}\n\n"))
            server.enqueue(MockResponse(code = 503))
            server.enqueue(MockResponse(body = "{\"event_id\":8,\"type\":\"acked\",\"to\":\"a\"}\n"))
            val client = GodwitClient(server.url("/").toString()) { apiKey("secret") }
            assertEquals(listOf("7", "8"), client.events("", "acked").take(2).toList().map { it.eventId })
            assertEquals(listOf(null, "7", "7"), List(3) { server.takeRequest().url.queryParameter("since") })
            server.enqueue(MockResponse(403, headersOf("Content-Type", "application/problem+json"), """{"type":"/problems/forbidden"}"""))
            assertFailsWith<ServerException> { client.events().first() }
        }
    }

    @Test
    fun `a failure of the collector is not taken for one of the stream`() = realTime {
        MockWebServer().use { server ->
            server.start()
            server.enqueue(MockResponse(body = "{\"event_id\":\"7\",\"type\":\"acked\",\"to\":\"a\"}\n"))
            val client = GodwitClient(server.url("/").toString()) { apiKey("secret") }
            assertFailsWith<UnreachableException> { client.events().collect { throw UnreachableException("another server") } }
            assertEquals(1, server.requestCount)
        }
    }

    @Test
    fun `channels are set up and recipients' preferences kept`() = realTime {
        Server.development().use { server ->
            val client = server.client()
            client.setChannel("webhook", "{}")
            assertTrue(client.channels().single { it.channel == "webhook" }.configured)
            client.deleteChannel("webhook")
            assertTrue(client.channels().none { it.channel == "webhook" && it.configured })

            val quiet = Preferences(mapOf("rides" to listOf("fcm"), "news" to emptyList(), "*" to null), QuietHours("22:00", "08:00"), "Europe/Oslo")
            client.setPreferences("driver-42", quiet)
            assertEquals(quiet, client.preferences("driver-42"))
            client.setPreferences("driver-42", Preferences())
            assertEquals(Preferences(), client.preferences("driver-42"))
        }
    }

    @Test
    fun `what phones alone get is what the server takes`() = realTime {
        Server.development().use { server ->
            val receipt = server.client().publish("driver-42") {
                title = "To the pickup"
                collapseKey = "ride"
                fcm = Fcm().apply {
                    ongoing = true
                    shortText = "5 min"
                    progress = 40
                    directBootOk = true
                }
                apns = Apns().apply {
                    interruptionLevel = "time-sensitive"
                    relevanceScore = 0.5
                }
                liveActivity = LiveActivity("Ride", """{"minutes":5}""")
            }
            assertEquals("stored", receipt.status)
            val e = assertFailsWith<ServerException> {
                server.client().publish("driver-42") {
                    title = "To the pickup"
                    fcm = Fcm().apply {
                        ongoing = true
                        progress = 101
                    }
                }
            }
            assertTrue("progress" in e.field, e.field)
        }
    }

    @Test
    fun `whatever the API has can be called`() = realTime {
        Server.development().use { server ->
            val client = server.client()
            client.call(ApiCall("PUT", "templates", "hello", body = """{"content":{"title":"Hi {{name}}"}}"""))
            assertEquals("hello", Json.parseToJsonElement(client.call(ApiCall("GET", "templates", "hello"))).jsonObject.text("name"))
            assertFailsWith<ServerException> { client.call(ApiCall("GET", "templates", "none")) }
        }
    }
}
