# Reads a formula with the words of Homebrew that it uses, and does what it says with an unpacked archive.
#   ruby homebrew.rb FORMULA SYSTEM CPU ARCHIVE PREFIX
require "fileutils"
require "json"
require "pathname"

formula, $system, $cpu, $archive, $prefix = ARGV
$said = {}

class Target < Pathname
  def install(*files)
    files.flatten.each do |file|
      raise "there is no #{file}" unless File.exist?(file)
      mkpath
      FileUtils.cp(file, self)
    end
    raise "nothing to install in #{self}" if files.flatten.empty?
  end

  def /(other) = Target.new((Pathname.new(self) + other.to_s).to_s)
end

class Service
  def method_missing(name, *values, **named)
    $said["service #{name}"] = (values + named.map { |k, v| "#{k}=#{v}" }).flatten.map(&:to_s)
  end

  def respond_to_missing?(*) = true
end

class Formula
  PLACES = {
    bin: "bin", opt_bin: "bin", man1: "share/man/man1", man5: "share/man/man5", doc: "share/doc/godwit", var: "var",
    bash_completion: "etc/bash_completion.d", zsh_completion: "share/zsh/site-functions", fish_completion: "share/fish/vendor_completions.d",
  }.freeze
  PLACES.each { |name, folder| define_method(name) { Target.new(File.join($prefix, folder)) } }

  class << self
    PLACES.each { |name, folder| define_method(name) { Target.new(File.join($prefix, folder)) } }
    %w[desc homepage version license url sha256].each { |name| define_method(name) { |value| $said[name] = value } }
    %w[macos linux].each { |name| define_method("on_#{name}") { |&block| block.call if $system == name } }
    %w[arm intel].each { |name| define_method("on_#{name}") { |&block| block.call if $cpu == name } }
    def service(&block) = Service.new.instance_eval(&block)
    def test(&block) = $test = block

    # The paths of a service are those of the formula.
    def inherited(made) = Service.define_method(:formula) { made }
  end

  def version = $said["version"]
  def shell_output(command) = `#{command}`.tap { raise "#{command} failed" unless $?.success? }
  def system(*command) = Kernel.system(*command.map(&:to_s), out: File::NULL) || raise("#{command} failed")
  def chmod(mode, file) = FileUtils.chmod(mode, file)
  def assert_match(want, got) = got.include?(want) || raise("#{want} is not in #{got}")
end

class Service
  Formula::PLACES.each { |name, folder| define_method(name) { Target.new(File.join($prefix, folder)) } }
end

load formula
made = Godwit.new
Dir.chdir($archive) { made.install }
made.post_install
made.instance_eval(&$test)
$said["caveats"] = made.caveats
puts JSON.generate($said)
