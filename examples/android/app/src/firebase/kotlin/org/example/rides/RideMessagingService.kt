package org.example.rides

import com.google.firebase.messaging.FirebaseMessagingService
import com.google.firebase.messaging.RemoteMessage
import dev.godwit.GodwitException
import kotlinx.coroutines.runBlocking

/** Hands Firebase's messages over. Godwit sends data messages: Android shows nothing by itself and always asks this service. */
class RideMessagingService : FirebaseMessagingService() {
    override fun onMessageReceived(message: RemoteMessage) = RidesApp.of(this).received(message.data)

    /** The device has a new token. Firebase calls this on a thread of its own. Without a network it is registered at the next start of the app. */
    override fun onNewToken(token: String) {
        val app = RidesApp.of(this)
        if (app.driver.isEmpty()) return
        try {
            runBlocking { app.push.registerFcm(app.driver, token) }
        } catch (_: GodwitException) {
            // RidesApp registers FirebaseMessaging's token at each start.
        }
    }
}
