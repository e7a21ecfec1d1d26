import Foundation

/// Acknowledges by token. What could not be sent is kept, at most 100, and sent with the next event.
public struct Acks {
  private let server: URL
  private let kept: UserDefaults
  private static let key = "godwit-unsent"

  /// `server` is like https://push.example.org; `group` is the app group that app and extension share.
  public init(server: URL, group: String) {
    self.server = URL(string: "/v1/acks", relativeTo: server)!.absoluteURL
    kept = UserDefaults(suiteName: group) ?? .standard
  }

  /// `event` is shown, clicked or dismissed.
  public func post(_ token: String, _ event: String, done: @escaping () -> Void = {}) {
    kept.set(Array((unsent + [[token, event]]).suffix(100)), forKey: Self.key)
    send(done: done)
  }

  /// Sends what could not be sent before.
  public func send(done: @escaping () -> Void = {}) {
    let group = DispatchGroup()
    for one in unsent {
      group.enter()
      var r = URLRequest(url: server, timeoutInterval: 10)
      r.httpMethod = "POST"
      r.setValue("application/json", forHTTPHeaderField: "Content-Type")
      r.httpBody = try? JSONSerialization.data(withJSONObject: ["tokens": [one[0]], "event": one[1]] as [String: Any])
      URLSession.shared.dataTask(with: r) { _, answer, _ in
        let status = (answer as? HTTPURLResponse)?.statusCode ?? 503
        DispatchQueue.main.async {
          // A token that the server refuses it will not take later.
          if status < 500 && status != 429 {
            kept.set(unsent.filter { $0 != one }, forKey: Self.key)
          }
          group.leave()
        }
      }.resume()
    }
    group.notify(queue: .main, execute: done)
  }

  private var unsent: [[String]] { kept.array(forKey: Self.key) as? [[String]] ?? [] }
}
