package org.example.rides

import android.app.Application
import android.content.Context
import dev.godwit.Deduplicator
import dev.godwit.FileStorage
import dev.godwit.GodwitClient
import dev.godwit.Token
import dev.godwit.push.GodwitPush
import java.io.File

/** What the whole app shares: one client, one record of what was shown, whoever brought it. */
open class RidesApp : Application() {
    /** The driver who is signed in; empty: nobody is. */
    var driver: String
        get() = getSharedPreferences(ACCOUNT, Context.MODE_PRIVATE).getString(DRIVER, "").orEmpty()
        set(value) = getSharedPreferences(ACCOUNT, Context.MODE_PRIVATE).edit().putString(DRIVER, value).apply()

    val client: GodwitClient by lazy {
        GodwitClient(server) {
            app("rides")
            tokens { fetchToken() }
            networkMonitor(PhoneNetwork(this@RidesApp))
        }
    }

    val push: GodwitPush by lazy {
        GodwitPush(client, Deduplicator(FileStorage(File(filesDir, "seen.json"))), FileStorage(File(filesDir, "push.json")), Screen(this))
    }

    protected open val server: String get() = "https://push.example.org"

    /** Asks your back end for the driver's token. It may block. */
    protected open fun fetchToken(): Token = throw NotImplementedError("ask your back end, with whatever it knows the driver by")

    override fun onCreate() {
        super.onCreate()
        Channels.create(this)
    }

    /** Takes FCM's data, on any thread. */
    fun received(data: Map<String, String>) {
        if (push.handle(data)) report()
    }

    /** Has what the server does not know yet reported as soon as there is a network. */
    fun report() {
        if (push.pending) ReportJob.schedule(this)
    }

    /** The driver has accepted or declined a ride. Your back end is told by the app; Godwit knows only that the notification is done with. */
    open fun decided(id: String, accepted: Boolean) = Unit

    companion object {
        private const val ACCOUNT = "account"
        private const val DRIVER = "driver"

        fun of(context: Context): RidesApp = context.applicationContext as RidesApp
    }
}
