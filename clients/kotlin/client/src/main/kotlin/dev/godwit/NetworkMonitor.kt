package dev.godwit

/**
 * Tells a client about the device's network. Without one, a lost connection is noticed after two silent heartbeats at the latest; with one, the
 * client probes its connection as soon as the network has changed, and connects at once when there is one again.
 *
 * On Android implement it with `ConnectivityManager.registerDefaultNetworkCallback` (API 24) or `registerNetworkCallback` (API 21), and call
 * the listener for `onAvailable`, `onCapabilitiesChanged` and when the device leaves doze.
 */
public fun interface NetworkMonitor {
    /** Calls [listener] at each change until the returned subscription is closed. It may be called on any thread. */
    public fun subscribe(listener: Runnable): AutoCloseable
}
