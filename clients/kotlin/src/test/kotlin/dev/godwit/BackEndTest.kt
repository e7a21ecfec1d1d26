package dev.godwit

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
    fun `whatever the API has can be called`() = realTime {
        Server.development().use { server ->
            val client = server.client()
            client.call(ApiCall("PUT", "templates", "hello", body = """{"content":{"title":"Hi {{name}}"}}"""))
            assertEquals("hello", Json.parseToJsonElement(client.call(ApiCall("GET", "templates", "hello"))).jsonObject.text("name"))
            assertFailsWith<ServerException> { client.call(ApiCall("GET", "templates", "none")) }
        }
    }
}
