package org.example.rides

import android.Manifest
import android.app.Notification
import android.app.NotificationManager
import android.app.PendingIntent
import android.app.job.JobScheduler
import android.content.Intent
import android.view.ViewGroup
import android.widget.ToggleButton
import dev.godwit.Deduplicator
import dev.godwit.FileStorage
import dev.godwit.Token
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.Robolectric
import org.robolectric.RobolectricTestRunner
import org.robolectric.RuntimeEnvironment
import org.robolectric.Shadows.shadowOf
import org.robolectric.annotation.Config
import java.io.File
import kotlin.test.assertEquals
import kotlin.test.assertFalse
import kotlin.test.assertNotNull
import kotlin.test.assertNull
import kotlin.test.assertTrue

/** The app on a phone with Android 15. */
@RunWith(RobolectricTestRunner::class)
@Config(sdk = [35], application = RidesTest.App::class, manifest = Config.NONE)
class RidesTest {
    /** The app, whose server is not there. */
    class App : RidesApp() {
        val decisions = ArrayList<String>()

        override val server get() = "http://127.0.0.1:1"

        override fun fetchToken() = Token("token")

        override fun decided(id: String, accepted: Boolean) {
            decisions += "$id $accepted"
        }
    }

    private val app get() = RuntimeEnvironment.getApplication() as App
    private val manager get() = checkNotNull(app.getSystemService(NotificationManager::class.java))
    private val jobs get() = checkNotNull(app.getSystemService(JobScheduler::class.java))

    private val ride = mapOf(
        "godwit_id" to "ride-1", "title" to "New ride", "body" to "2.1 km away", "category" to "NEW_RIDE", "godwit_ack" to "token-1", "tag" to "ride",
    )

    private fun shown(): List<Notification> = manager.activeNotifications.map { it.notification }

    private fun press(intent: PendingIntent) = ActionReceiver().onReceive(app, shadowOf(intent).savedIntent)

    @Test
    fun `a message is shown once on its channel with its actions`() {
        app.received(ride)
        app.received(ride)
        val n = shown().single()
        assertEquals(Channels.RIDES, n.channelId)
        assertEquals("New ride", n.extras.getString(Notification.EXTRA_TITLE))
        assertEquals(listOf("Accept", "Decline"), n.actions.map { it.title.toString() })
        assertEquals(setOf(Channels.RIDES, Channels.NEWS, Channels.DUTY), manager.notificationChannels.map { it.id }.toSet())
        app.received(mapOf("godwit_id" to "news-1", "title" to "Road closed"))
        assertEquals(listOf(Channels.RIDES, Channels.NEWS).sorted(), shown().map { it.channelId }.sorted())
        assertFalse(app.push.handle(mapOf("from" to "somebody else")))
    }

    @Test
    fun `a quick action acknowledges and closes and is reported when there is a network`() {
        app.received(ride)
        val accept = shown().single().actions[0].actionIntent
        press(accept)
        assertEquals(emptyList(), shown())
        assertEquals(listOf("ride-1 true"), app.decisions)
        assertTrue(app.push.pending)
        val job = assertNotNull(jobs.getPendingJob(ReportJob.ID))
        assertTrue(job.isPersisted && job.requiredNetwork != null)
        press(accept) // of a notification that was still on the watch
        assertEquals(listOf("ride-1 true"), app.decisions)
    }

    @Test
    fun `each action of each notification is its own`() {
        app.received(ride)
        app.received(ride + mapOf("godwit_id" to "ride-2", "tag" to "ride-2", "godwit_ack" to "token-2"))
        val (first, second) = shown().sortedBy { it.extras.getString("godwit_id") }
        press(first.actions[1].actionIntent)
        press(second.actions[0].actionIntent)
        assertEquals(listOf("ride-1 false", "ride-2 true"), app.decisions)
    }

    @Test
    fun `a swipe acknowledges and decides nothing`() {
        app.received(ride)
        press(shown().single().deleteIntent)
        assertTrue(app.push.pending)
        assertEquals(emptyList(), app.decisions)
    }

    @Test
    fun `what was taken back closes and does not come again`() {
        app.received(ride)
        app.received(mapOf("godwit_recall" to "ride-1"))
        assertEquals(emptyList(), shown())
        app.received(ride)
        assertEquals(emptyList(), shown())
    }

    @Test
    fun `a newer one of the same tag stays when the older one is closed`() {
        app.received(ride)
        app.received(ride + ("godwit_id" to "ride-2"))
        app.received(mapOf("godwit_recall" to "ride-1"))
        assertEquals("ride-2", shown().single().extras.getString("godwit_id"))
    }

    @Test
    fun `a tap opens the app and acknowledges`() {
        app.received(ride)
        val tap = shadowOf(shown().single().contentIntent).savedIntent
        Robolectric.buildActivity(MainActivity::class.java, tap).create()
        assertEquals(emptyList(), shown())
        assertTrue(app.push.pending)
    }

    @Test
    fun `the service is in the foreground and ends with nobody signed in`() {
        val signedOut = Robolectric.buildService(DutyService::class.java).create().startCommand(0, 1)
        assertTrue(shadowOf(signedOut.get()).isStoppedBySelf)
        app.driver = "driver-42"
        val service = Robolectric.buildService(DutyService::class.java).create().startCommand(0, 1)
        val line = assertNotNull(shadowOf(service.get()).lastForegroundNotification)
        assertEquals(Channels.DUTY, line.channelId)
        assertFalse(shadowOf(service.get()).isStoppedBySelf)
        service.destroy()
    }

    @Test
    fun `the permission is asked for when the driver goes on duty`() {
        val activity = Robolectric.buildActivity(MainActivity::class.java, Intent()).create().get()
        val duty = assertNotNull(activity.findViewById<ViewGroup>(android.R.id.content)).getChildAt(0) as ToggleButton
        duty.isChecked = true
        val asked = assertNotNull(shadowOf(activity).lastRequestedPermission)
        assertEquals(listOf(Manifest.permission.POST_NOTIFICATIONS), asked.requestedPermissions.toList())
        assertNull(shadowOf(app).nextStartedService)
        activity.onRequestPermissionsResult(asked.requestCode, asked.requestedPermissions, intArrayOf(0))
        assertEquals(DutyService::class.java.name, assertNotNull(shadowOf(app).nextStartedService).component?.className)
    }

    @Test
    fun `a restarted process knows what it has shown`() {
        app.received(ride)
        manager.cancelAll() // as a restart of the phone does
        val again = Deduplicator(FileStorage(File(app.filesDir, "seen.json")))
        assertTrue(again.seen("ride-1"))
    }
}
