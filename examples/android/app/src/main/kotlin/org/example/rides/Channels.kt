package org.example.rides

import android.app.Notification
import android.app.NotificationChannel
import android.app.NotificationManager
import android.content.Context
import android.os.Build

/** Android's notification channels, whose sound and importance people change in the phone's settings. Before Android 8 there are none. */
object Channels {
    /** What asks the driver to act. */
    const val RIDES = "rides"

    /** Everything else. */
    const val NEWS = "news"

    /** The line that says that the driver is on duty. */
    const val DUTY = "duty"

    fun create(context: Context) {
        if (Build.VERSION.SDK_INT < Build.VERSION_CODES.O) return
        val manager = checkNotNull(context.getSystemService(NotificationManager::class.java))
        manager.createNotificationChannels(
            listOf(
                NotificationChannel(RIDES, "New rides", NotificationManager.IMPORTANCE_HIGH),
                NotificationChannel(NEWS, "News", NotificationManager.IMPORTANCE_DEFAULT),
                NotificationChannel(DUTY, "On duty", NotificationManager.IMPORTANCE_LOW),
            ),
        )
    }

    /** The channel of a message: the one that the publisher named, if the app has it. */
    fun of(named: String, category: String): String = when {
        named == RIDES || named == NEWS -> named
        category == NEW_RIDE -> RIDES
        else -> NEWS
    }

    fun builder(context: Context, channel: String): Notification.Builder {
        if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.O) return Notification.Builder(context, channel)
        @Suppress("DEPRECATION")
        return Notification.Builder(context).setPriority(if (channel == RIDES) Notification.PRIORITY_HIGH else Notification.PRIORITY_DEFAULT)
    }

    const val NEW_RIDE = "NEW_RIDE"
}
