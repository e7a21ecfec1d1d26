@file:Suppress("UNUSED_VARIABLE", "unused", "UNUSED_PARAMETER")

package dev.godwit.guide

import dev.godwit.Answer
import dev.godwit.Deduplicator
import dev.godwit.FileStorage
import dev.godwit.GodwitClient
import dev.godwit.ListenEvents
import dev.godwit.NetworkMonitor
import dev.godwit.Notification
import dev.godwit.Token
import dev.godwit.backend.Step
import dev.godwit.backend.awaitSettled
import dev.godwit.backend.createCampaign
import dev.godwit.backend.publish
import dev.godwit.messaging.Objects
import dev.godwit.messaging.RequestHandler
import dev.godwit.messaging.Topics
import dev.godwit.messaging.objects
import dev.godwit.messaging.requests
import dev.godwit.messaging.topics
import dev.godwit.push.GodwitPush
import dev.godwit.push.PushDisplay
import dev.godwit.push.PushMessage
import kotlinx.coroutines.withTimeout
import java.io.File
import kotlin.time.Duration.Companion.seconds

// What the README and the guides show. GuideTest holds them to it, so it compiles.

private fun fetchToken() = "token"

private fun show(notification: Notification) = Unit

private fun takeFromScreen(id: String) = Unit

private fun apply(version: Long, payload: String) = Unit

private suspend fun listen(monitor: NetworkMonitor) {
    val client = GodwitClient("https://godwit.example.org") {
        app("rides")
        tokens { Token(fetchToken()) }
        networkMonitor(monitor)
    }
    client.listen("driver-42", {
        device = "phone-1"
        events = object : ListenEvents {
            override fun recalled(ids: List<String>) = ids.forEach(::takeFromScreen)
        }
    }) { notification -> show(notification) }
}

private suspend fun flow(client: GodwitClient) {
    client.notifications("driver-42").collect { notification -> show(notification) }
}

private suspend fun push(client: GodwitClient, folder: File, display: PushDisplay, message: Map<String, String>, fcmToken: String) {
    val push = GodwitPush(client, Deduplicator(FileStorage(File(folder, "seen.json"))), FileStorage(File(folder, "push.json")), display)

    push.handle(message)                      // FCM's data; handleWebPush takes UnifiedPush's bytes
    push.clicked("ride-9f3")                  // or dismissed: closes it, and acknowledges it
    if (push.pending) push.flush()            // tells the server, as from WorkManager
    push.registerFcm("driver-42", fcmToken)   // at each start, and when FCM has a new token
}

private suspend fun objects(client: GodwitClient, folder: File) {
    val objects = Objects("region-1", FileStorage(File(folder, "objects.json")))
    objects.register("camera-config") { signal -> apply(signal.version, signal.text) }
    val topics = Topics { message -> println("${message.topic}: ${message.text}") }
    topics.subscribe("rides.*")

    client.listen("unit-7", {
        device = "unit-7"
        this.objects = objects
        this.topics = topics
        requests = RequestHandler { request -> Answer("made ${request.text}", status = 201) }
    }, handler = null)
}

private suspend fun publish(key: String) {
    val backend = GodwitClient("https://godwit.example.org") { apiKey(key) }
    val receipt = backend.publish("driver-42") {
        title = "New ride"
        data = """{"fare":120}""".encodeToByteArray()
        ttlMillis = 30_000
        escalate = listOf(Step("live"), Step("fcm", afterMillis = 5_000))
    }
    val status = withTimeout(10.seconds) { backend.awaitSettled(receipt.id, "driver-42") }
}

private suspend fun campaign(backend: GodwitClient) {
    val campaign = backend.createCampaign("""{"name":"news","content":{"title":"Road closed"},"audience":{"tags_any":["drivers"]},"rate":"25/s"}""")
    campaign.start()
    campaign.progress().collect { println("${it.state}: ${it.counts}") }
}

class Godwit(folder: File, private val screen: PushDisplay, monitor: NetworkMonitor) {
    val client = GodwitClient("https://push.example.org") {
        app("rides")
        tokens { Token(fetchToken()) }
        networkMonitor(monitor)
    }
    val push = GodwitPush(client, Deduplicator(FileStorage(File(folder, "seen.json"))), FileStorage(File(folder, "push.json")), screen)

    // While the app is open, or in a foreground service.
    suspend fun listen(driver: String): Nothing = client.listen(driver, {
        device = "phone"
        heartbeatMillis = 240_000
        held = { push.shown() }
        events = object : ListenEvents {
            override fun recalled(ids: List<String>) = push.recalled(ids)
        }
    }) { notification -> push.live(notification) }
}

class RideMessagingService(private val godwit: Godwit, private val later: () -> Unit) {
    fun onMessageReceived(data: Map<String, String>) {
        if (godwit.push.handle(data) && godwit.push.pending) later() // enqueues the worker below
    }

    suspend fun onNewToken(driver: String, token: String) = godwit.push.registerFcm(driver, token)
}

// In a worker with the constraint that there is a network; an exception means: try again later.
suspend fun doWork(godwit: Godwit) = godwit.push.flush()

private fun fields(message: PushMessage) = message.title
