package org.example.rides

import android.app.PendingIntent
import android.content.Intent
import android.net.Uri
import androidx.core.app.NotificationCompat
import androidx.core.app.NotificationManagerCompat
import androidx.core.os.bundleOf
import com.google.firebase.messaging.FirebaseMessagingService
import com.google.firebase.messaging.RemoteMessage

/** Shows what Firebase brings. Godwit sends data messages: Android shows nothing by itself and always asks this service. */
class RideMessagingService : FirebaseMessagingService() {
    private val seen by lazy { Seen.of(this) }
    private val manager by lazy { NotificationManagerCompat.from(this) }

    override fun onMessageReceived(m: RemoteMessage) {
        val recalled = m.data["godwit_recall"]
        if (recalled != null) { // taken back, maybe before it came: FCM keeps no order
            AckReceiver.recalled(this, recalled)
            return
        }
        val id = m.data["godwit_id"] ?: return // not from Godwit
        if (!manager.areNotificationsEnabled()) return
        if (seen.seen(id)) return // the live connection was faster, or it was acknowledged or recalled
        show(id, m.data)
        seen.shown(id)
        // The publisher said that showing it is enough, so it is acknowledged at once.
        val token = m.data["godwit_ack"]
        if (m.data["godwit_settle"] == "shown" && token != null) AckWorker.post(this, token, "shown")
    }

    private fun show(id: String, data: Map<String, String>) {
        val swipe = PendingIntent.getBroadcast(
            this, 0,
            Intent(this, AckReceiver::class.java).setData(Uri.parse("godwit:$id")).putExtra("godwit_ack", data["godwit_ack"]),
            PendingIntent.FLAG_UPDATE_CURRENT or PendingIntent.FLAG_IMMUTABLE,
        )
        // Android lets no receiver open a screen: the tap goes to an activity, which calls AckReceiver.settle.
        val tap = PendingIntent.getActivity(
            this, 0,
            Intent(this, RideActivity::class.java).setData(Uri.parse("godwit:$id"))
                .putExtra("godwit_ack", data["godwit_ack"]).putExtra("url", data["url"]),
            PendingIntent.FLAG_UPDATE_CURRENT or PendingIntent.FLAG_IMMUTABLE,
        )
        manager.notify(
            data["tag"] ?: id, 0, // a newer one of the same collapse key takes its place
            NotificationCompat.Builder(this, data["channel_id"] ?: "default")
                .setContentTitle(data["title"]).setContentText(data["body"]).setSmallIcon(R.drawable.icon)
                .addExtras(bundleOf("godwit_id" to id)) // by which it is found again
                .setAutoCancel(true).setContentIntent(tap).setDeleteIntent(swipe).build(),
        )
    }

    /** The device has a new token: the back end, or the app with its client token, registers it as an endpoint. */
    override fun onNewToken(token: String) = Registration.send(this, token)
}
