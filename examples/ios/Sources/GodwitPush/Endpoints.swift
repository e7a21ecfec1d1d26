import Foundation

/// Registers tokens at a Godwit server, with the signed-in person's client token.
public struct Endpoints {
  private let server: URL
  private let token: () async throws -> String
  private let session: URLSession

  public struct Refused: Error {
    public let status: Int
  }

  /// `server` is like https://push.example.org; `token` returns a client token.
  public init(server: URL, session: URLSession = .shared, token: @escaping () async throws -> String) {
    self.server = server
    self.session = session
    self.token = token
  }

  /// Registers the device for notifications.
  public func register(device: Data) async throws {
    try await post("apns", ["token": Self.hex(device)])
  }

  /// Lets messages start Live Activities of a type on this device: `type` is the name of the ActivityAttributes.
  public func register(start: Data, type: String) async throws {
    try await post("liveactivitystart", ["token": Self.hex(start), "type": type])
  }

  /// Has a running Live Activity follow an object: the payload of each version becomes its content state.
  public func register(activity: Data, group: String, object: String) async throws {
    try await post("liveactivity", ["token": Self.hex(activity), "group": group, "object": object])
  }

  static func hex(_ token: Data) -> String { token.map { String(format: "%02x", $0) }.joined() }

  private func post(_ channel: String, _ address: [String: String]) async throws {
    var r = URLRequest(url: server.appendingPathComponent("v1/endpoints"), timeoutInterval: 30)
    r.httpMethod = "POST"
    r.setValue("Bearer \(try await token())", forHTTPHeaderField: "Authorization")
    r.setValue("application/json", forHTTPHeaderField: "Content-Type")
    r.httpBody = try JSONSerialization.data(withJSONObject: [
      "channel": channel, "address": address, "timezone": TimeZone.current.identifier,
      "locale": Locale.current.identifier.replacingOccurrences(of: "_", with: "-"),
    ] as [String: Any])
    let (_, answer) = try await session.data(for: r)
    let status = (answer as? HTTPURLResponse)?.statusCode ?? 0
    guard status == 200 || status == 201 else { throw Refused(status: status) }
  }
}
