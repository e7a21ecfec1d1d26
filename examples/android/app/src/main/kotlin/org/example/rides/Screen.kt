package org.example.rides

import android.app.Notification
import android.app.NotificationManager
import android.app.PendingIntent
import android.content.Context
import android.content.Intent
import android.net.Uri
import android.os.Bundle
import dev.godwit.push.PushDisplay
import dev.godwit.push.PushMessage

/** Shows notifications, with what can be done about them at once. */
class Screen(private val context: Context) : PushDisplay {
    private val manager = checkNotNull(context.getSystemService(NotificationManager::class.java))

    override fun show(message: PushMessage) {
        // Of a collapse key a newer one takes the place of the older one.
        manager.notify(message.tag, 0, notification(message))
    }

    /** A newer one of the same tag stays. */
    override fun close(id: String) {
        for (n in manager.activeNotifications) if (n.notification.extras.getString(ID) == id) manager.cancel(n.tag, n.id)
    }

    private fun notification(message: PushMessage): Notification {
        val builder = Channels.builder(context, Channels.of(message.channelId, message.category))
            .setContentTitle(message.title)
            .setContentText(message.body)
            .setSmallIcon(android.R.drawable.stat_notify_chat)
            .addExtras(Bundle().apply { putString(ID, message.id) }) // by which close finds it
            .setAutoCancel(true)
            .setContentIntent(opens(message))
            .setDeleteIntent(does(ActionReceiver.DISMISS, message.id))
        if (message.category == Channels.NEW_RIDE) {
            builder.addAction(action("Accept", ActionReceiver.ACCEPT, message.id)).addAction(action("Decline", ActionReceiver.DECLINE, message.id))
        }
        return builder.build()
    }

    private fun action(title: String, what: String, id: String) = Notification.Action.Builder(null, title, does(what, id)).build()

    /** Android lets no receiver open a screen, so a tap goes to the activity. */
    private fun opens(message: PushMessage): PendingIntent {
        val intent = Intent(context, MainActivity::class.java).setAction(ActionReceiver.OPEN).setData(uri(message.id)).putExtra(URL, message.url)
        return PendingIntent.getActivity(context, 0, intent, FLAGS)
    }

    private fun does(what: String, id: String): PendingIntent =
        PendingIntent.getBroadcast(context, 0, Intent(context, ActionReceiver::class.java).setAction(what).setData(uri(id)), FLAGS)

    companion object {
        private const val ID = "godwit_id"
        private const val FLAGS = PendingIntent.FLAG_UPDATE_CURRENT or PendingIntent.FLAG_IMMUTABLE

        /** An extra of the activity's intent: the page that a tap opens. */
        const val URL = "url"

        /** Android tells intents apart by their data and not by their extras. */
        private fun uri(id: String) = Uri.fromParts("godwit", id, null)

        /** The notification that an intent is about. */
        fun idOf(intent: Intent): String? = intent.data?.takeIf { it.scheme == "godwit" }?.schemeSpecificPart
    }
}
