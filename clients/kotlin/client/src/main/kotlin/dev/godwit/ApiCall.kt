@file:JvmName("ApiCalls")

package dev.godwit

/**
 * A request of the HTTP API. The most common requests have functions of their own in this library.
 *
 * ```
 * val channels = client.call(ApiCall("GET", "channels"))
 * ```
 */
public class ApiCall @JvmOverloads constructor(
    /** `GET`, `POST`, `PUT`, `PATCH` or `DELETE`. */
    public val method: String,
    /** The names behind `/v1`. They are escaped here. */
    public vararg val path: String,
    /** The parameters behind the question mark; those that are null are left out. */
    public val query: Map<String, String?> = emptyMap(),
    /** JSON, unless [contentType] says otherwise; null: none. */
    public val body: String? = null,
    /** The type of [body]. */
    public val contentType: String = "application/json",
    /**
     * Headers: with an `Idempotency-Key` a POST creates one thing however often it is sent, and `If-Match` names the revision that a change is
     * meant for.
     */
    public val headers: Map<String, String> = emptyMap(),
) {
    /** Names the method and the path. */
    override fun toString(): String = "$method /v1/${path.joinToString("/")}"
}

/**
 * Carries out a call with the key, or else with the recipient's token, and returns the body of its answer. After temporary failures it is tried again.
 *
 * @throws ServerException if the server refuses it
 */
public suspend fun GodwitClient.call(call: ApiCall): String = authorised(call)
