package org.example.rides

import android.content.Context
import android.net.ConnectivityManager
import android.net.Network
import android.net.NetworkCapabilities
import android.net.NetworkRequest
import dev.godwit.NetworkMonitor

/** Tells the client of each change of the phone's networks, so that it probes its connection and does not wait for a heartbeat. */
class PhoneNetwork(context: Context) : NetworkMonitor {
    private val manager = checkNotNull(context.getSystemService(ConnectivityManager::class.java))

    override fun subscribe(listener: Runnable): AutoCloseable {
        val callback = object : ConnectivityManager.NetworkCallback() {
            override fun onAvailable(network: Network) = listener.run()

            override fun onLost(network: Network) = listener.run()
        }
        val request = NetworkRequest.Builder().addCapability(NetworkCapabilities.NET_CAPABILITY_INTERNET).build()
        manager.registerNetworkCallback(request, callback)
        return AutoCloseable { manager.unregisterNetworkCallback(callback) }
    }
}
