import Foundation

/// Acknowledges by token. What could not be sent is kept, at most 100, and sent with the next event.
enum Acks {
  private static let server = URL(string: "https://push.example.org/v1/acks")!
  private static let kept = UserDefaults(suiteName: "group.org.example.rides")!
  private static let key = "godwit-unsent"

  static func post(_ token: String, _ event: String, done: @escaping () -> Void = {}) {
    let unsent = kept.array(forKey: key) as? [[String]] ?? []
    kept.set(Array((unsent + [[token, event]]).suffix(100)), forKey: key)
    send(done: done)
  }

  static func send(done: @escaping () -> Void = {}) {
    let group = DispatchGroup()
    for one in kept.array(forKey: key) as? [[String]] ?? [] {
      group.enter()
      var r = URLRequest(url: server, timeoutInterval: 10)
      r.httpMethod = "POST"
      r.setValue("application/json", forHTTPHeaderField: "Content-Type")
      r.httpBody = try? JSONSerialization.data(withJSONObject: ["tokens": [one[0]], "event": one[1]])
      URLSession.shared.dataTask(with: r) { _, answer, _ in
        let status = (answer as? HTTPURLResponse)?.statusCode ?? 503
        DispatchQueue.main.async {
          // A token that the server refuses it will not take later.
          if status < 500 && status != 429 {
            kept.set((kept.array(forKey: key) as? [[String]] ?? []).filter { $0 != one }, forKey: key)
          }
          group.leave()
        }
      }.resume()
    }
    group.notify(queue: .main, execute: done)
  }
}
