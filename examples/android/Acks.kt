package org.example.rides

import android.content.BroadcastReceiver
import android.content.Context
import android.content.Intent
import androidx.core.app.NotificationManagerCompat
import androidx.work.BackoffPolicy
import androidx.work.Constraints
import androidx.work.NetworkType
import androidx.work.OneTimeWorkRequestBuilder
import androidx.work.WorkManager
import androidx.work.Worker
import androidx.work.WorkerParameters
import androidx.work.workDataOf
import java.io.IOException
import java.net.HttpURLConnection
import java.net.URL
import java.util.concurrent.TimeUnit
import org.json.JSONArray
import org.json.JSONObject

private const val SERVER = "https://push.example.org"

/** Is told that a notification was swiped away. */
class AckReceiver : BroadcastReceiver() {
    override fun onReceive(context: Context, intent: Intent) = settle(context, intent, "dismissed")

    companion object {
        /** Ends a notification: here, and with its token everywhere. RideActivity calls it with "clicked" when it opens. */
        fun settle(context: Context, intent: Intent, event: String) {
            val id = intent.data?.schemeSpecificPart ?: return
            if (!Seen.of(context).settled(id)) return // it was acknowledged or recalled before
            cancel(context, id)
            intent.getStringExtra("godwit_ack")?.let { AckWorker.post(context, it, event) }
        }

        /** It was acknowledged elsewhere, expired or taken back: so says a message, or the live connection's frame `recall`. */
        fun recalled(context: Context, id: String) {
            if (Seen.of(context).settled(id)) cancel(context, id)
        }

        // Of one tag there may be a newer one by now, which stays.
        private fun cancel(context: Context, id: String) {
            val manager = NotificationManagerCompat.from(context)
            for (n in manager.activeNotifications) if (n.notification.extras.getString("godwit_id") == id) manager.cancel(n.tag, n.id)
        }
    }
}

/** Acknowledges by token. Without a network WorkManager keeps it, through restarts of the phone too. */
class AckWorker(context: Context, parameters: WorkerParameters) : Worker(context, parameters) {
    override fun doWork(): Result {
        if (runAttemptCount >= 10) return Result.failure() // the notification has expired by then
        val body = JSONObject().put("tokens", JSONArray(listOf(inputData.getString("token")))).put("event", inputData.getString("event"))
        return try {
            val c = URL("$SERVER/v1/acks").openConnection() as HttpURLConnection
            c.requestMethod = "POST"
            c.connectTimeout = 10_000
            c.readTimeout = 10_000
            c.doOutput = true
            c.setRequestProperty("Content-Type", "application/json")
            c.outputStream.use { it.write(body.toString().toByteArray()) }
            // A token that the server refuses it will not take later.
            if (c.responseCode >= 500 || c.responseCode == 429) Result.retry() else Result.success()
        } catch (_: IOException) {
            Result.retry()
        }
    }

    companion object {
        fun post(context: Context, token: String, event: String) {
            val online = Constraints.Builder().setRequiredNetworkType(NetworkType.CONNECTED).build()
            WorkManager.getInstance(context).enqueue(
                OneTimeWorkRequestBuilder<AckWorker>().setConstraints(online)
                    .setBackoffCriteria(BackoffPolicy.EXPONENTIAL, 10, TimeUnit.SECONDS)
                    .setInputData(workDataOf("token" to token, "event" to event)).build(),
            )
        }
    }
}
