package org.example.rides

import android.Manifest
import android.app.Activity
import android.content.Intent
import android.content.pm.PackageManager
import android.os.Build
import android.os.Bundle
import android.widget.ToggleButton

/** One switch: on duty or not. */
class MainActivity : Activity() {
    override fun onCreate(savedInstanceState: Bundle?) {
        super.onCreate(savedInstanceState)
        val duty = ToggleButton(this).apply {
            textOn = "On duty"
            textOff = "Off duty"
            isChecked = false
            setOnCheckedChangeListener { _, on -> if (on) goOnDuty() else DutyService.stop(context) }
        }
        setContentView(duty)
        opened(intent)
    }

    override fun onNewIntent(intent: Intent) {
        super.onNewIntent(intent)
        opened(intent)
    }

    /** A tap on a notification acknowledges it. */
    private fun opened(intent: Intent) {
        val id = Screen.idOf(intent)?.takeIf { intent.action == ActionReceiver.OPEN } ?: return
        val app = RidesApp.of(this)
        app.push.clicked(id)
        app.report()
    }

    /** The permission is asked for when the person sees what it is for. Without it the service runs, and nothing shows. */
    private fun goOnDuty() {
        val asks = Build.VERSION.SDK_INT >= Build.VERSION_CODES.TIRAMISU &&
            checkSelfPermission(Manifest.permission.POST_NOTIFICATIONS) != PackageManager.PERMISSION_GRANTED
        if (asks) requestPermissions(arrayOf(Manifest.permission.POST_NOTIFICATIONS), PERMISSION) else DutyService.start(this)
    }

    override fun onRequestPermissionsResult(requestCode: Int, permissions: Array<String>, grantResults: IntArray) {
        super.onRequestPermissionsResult(requestCode, permissions, grantResults)
        if (requestCode == PERMISSION) DutyService.start(this) // also after a no: the open app shows what comes
    }

    private companion object {
        const val PERMISSION = 1
    }
}
