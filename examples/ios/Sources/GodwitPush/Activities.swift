#if canImport(ActivityKit)
  import ActivityKit
  import Foundation

  /// Attributes of a Live Activity that follows an object. A start by a message names the object here; an app that starts one itself sets it.
  public protocol FollowingAttributes: ActivityAttributes {
    /// Like "rides/ride-9f3": a group and an object.
    var godwit_object: String { get }
  }

  /// Registers the tokens of Live Activities of one type. Run it in a task as soon as the app starts, also in the background: iOS wakes the app
  /// when a message has started an activity, and only the app can hand on its token.
  @available(iOS 17.2, *)
  public struct Activities<Attributes: FollowingAttributes> {
    private let endpoints: Endpoints
    private let failed: @Sendable (Error) -> Void

    public init(_ endpoints: Endpoints, failed: @escaping @Sendable (Error) -> Void) {
      self.endpoints = endpoints
      self.failed = failed
    }

    public func run() async {
      await withTaskGroup(of: Void.self) { tasks in
        tasks.addTask { await starts() }
        tasks.addTask { await running() }
      }
    }

    /// Tokens with which messages may start activities.
    private func starts() async {
      for await token in Activity<Attributes>.pushToStartTokenUpdates {
        await attempt { try await endpoints.register(start: token, type: String(describing: Attributes.self)) }
      }
    }

    /// Activities that run already, and those that start.
    private func running() async {
      await withTaskGroup(of: Void.self) { tasks in
        for await activity in Activity<Attributes>.activityUpdates {
          tasks.addTask { await follow(activity) }
        }
      }
    }

    /// A token may change while its activity runs.
    private func follow(_ activity: Activity<Attributes>) async {
      let names = activity.attributes.godwit_object.split(separator: "/", maxSplits: 1).map(String.init)
      guard names.count == 2 else { return }
      for await token in activity.pushTokenUpdates {
        await attempt { try await endpoints.register(activity: token, group: names[0], object: names[1]) }
      }
    }

    /// Tries until it succeeds, at most for an hour: an activity without a registered token stays as it is.
    private func attempt(_ register: () async throws -> Void) async {
      var wait: UInt64 = 1_000_000_000
      for _ in 0..<10 where !Task.isCancelled {
        do {
          return try await register()
        } catch let refused as Endpoints.Refused where refused.status < 500 && refused.status != 429 {
          return failed(refused)
        } catch {
          failed(error)
        }
        try? await Task.sleep(nanoseconds: wait)
        wait = min(wait * 2, 600_000_000_000)
      }
    }
  }
#endif
