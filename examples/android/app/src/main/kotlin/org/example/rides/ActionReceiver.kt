package org.example.rides

import android.content.BroadcastReceiver
import android.content.Context
import android.content.Intent

/** Is told what the person did with a notification. Each of it acknowledges, and closes the notification on the person's other devices. */
class ActionReceiver : BroadcastReceiver() {
    override fun onReceive(context: Context, intent: Intent) {
        val app = RidesApp.of(context)
        val id = Screen.idOf(intent) ?: return
        val first = when (intent.action) {
            ACCEPT -> app.push.clicked(id)
            DECLINE, DISMISS -> app.push.dismissed(id)
            else -> return
        }
        // False: it was acknowledged elsewhere or taken back a moment ago, so there is nothing to decide any more.
        if (first && intent.action != DISMISS) app.decided(id, accepted = intent.action == ACCEPT)
        app.report()
    }

    companion object {
        const val OPEN = "org.example.rides.OPEN"
        const val ACCEPT = "org.example.rides.ACCEPT"
        const val DECLINE = "org.example.rides.DECLINE"
        const val DISMISS = "org.example.rides.DISMISS"
    }
}
