package org.example.rides

import android.app.Notification
import android.app.Service
import android.content.Context
import android.content.Intent
import android.content.pm.ServiceInfo
import android.os.Build
import android.os.IBinder
import dev.godwit.ListenEvents
import dev.godwit.RefusedException
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.SupervisorJob
import kotlinx.coroutines.cancel
import kotlinx.coroutines.launch

/**
 * Listens while the driver is on duty. A foreground service is what Android lets run with the screen off; whoever is not on duty is reached by push.
 * It holds no wake lock: the network wakes the phone.
 */
class DutyService : Service() {
    private val scope = CoroutineScope(SupervisorJob() + Dispatchers.Default)
    private var listening = false

    override fun onBind(intent: Intent?): IBinder? = null

    override fun onStartCommand(intent: Intent?, flags: Int, startId: Int): Int {
        toForeground() // within five seconds of each start, also where it then ends
        val driver = RidesApp.of(this).driver
        if (driver.isEmpty()) {
            stopSelf()
            return START_NOT_STICKY
        }
        if (!listening) {
            listening = true
            scope.launch { listen(driver) }
        }
        return START_STICKY // Android starts it again after it had to end the process
    }

    private fun toForeground() {
        val line = Channels.builder(this, Channels.DUTY)
            .setContentTitle("On duty")
            .setSmallIcon(android.R.drawable.stat_notify_sync)
            .setOngoing(true)
            .setCategory(Notification.CATEGORY_SERVICE)
            .build()
        if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.UPSIDE_DOWN_CAKE) {
            startForeground(LINE, line, ServiceInfo.FOREGROUND_SERVICE_TYPE_REMOTE_MESSAGING)
        } else {
            startForeground(LINE, line)
        }
    }

    private suspend fun listen(driver: String) {
        val push = RidesApp.of(this).push
        try {
            RidesApp.of(this).client.listen(driver, {
                device = "phone"
                heartbeatMillis = HEARTBEAT_MILLIS
                held = { push.shown() }
                events = object : ListenEvents {
                    override fun recalled(ids: List<String>) = push.recalled(ids)
                }
            }) { notification -> push.live(notification) }
        } catch (_: RefusedException) {
            stopSelf() // the driver has to sign in again
        }
    }

    override fun onDestroy() {
        scope.cancel()
        super.onDestroy()
    }

    companion object {
        const val LINE = 1

        /** The radio sleeps in between. Networks of phones forget a silent connection after five minutes or more. */
        private const val HEARTBEAT_MILLIS = 240_000L

        fun start(context: Context) {
            val intent = Intent(context, DutyService::class.java)
            if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.O) context.startForegroundService(intent) else context.startService(intent)
        }

        fun stop(context: Context) {
            context.stopService(Intent(context, DutyService::class.java))
        }
    }
}
