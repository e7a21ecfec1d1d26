// swift-tools-version: 5.9
import PackageDescription

let package = Package(
  name: "GodwitPush",
  platforms: [.iOS(.v15)],
  products: [.library(name: "GodwitPush", targets: ["GodwitPush"])],
  targets: [
    .target(name: "GodwitPush"),
    .testTarget(name: "GodwitPushTests", dependencies: ["GodwitPush"]),
  ]
)
