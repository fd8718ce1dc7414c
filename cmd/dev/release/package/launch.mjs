#!/usr/bin/env node
// Runs the program with the Bun runtime that npm installed for this platform. Plain JavaScript for Node 20 without packages.
import { spawn } from 'node:child_process'
import { createRequire } from 'node:module'
import { constants } from 'node:os'
import { fileURLToPath } from 'node:url'

const { platform, arch } = process
const runtime = `@oven/bun-${platform}-${arch === 'arm64' ? 'aarch64' : arch}`
// As in the compiled program, nothing in the current folder changes what runs: no .env, no bunfig.toml, no package.
const options = ['--no-env-file', '--config=/dev/null', '--no-install']
const signals = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT']

start(findRuntime())

function start(path) {
  const program = fileURLToPath(new URL('program/main.js', import.meta.url))
  const child = spawn(path, [...options, program, ...process.argv.slice(2)], { stdio: 'inherit' })
  // A terminal sends its signals to the child, too: a process ignores a repetition of the first within half a second.
  for (const signal of signals) process.on(signal, () => child.kill(signal))
  child.on('error', ({ message }) => fail(message))
  child.on('exit', (code, signal) => {
    if (signal === null) process.exit(code)
    if (signal === 'SIGILL') fail('the processor lacks instructions of Bun, which needs SSE4.2 on x64')
    if (!signals.includes(signal)) process.exit(128 + constants.signals[signal])
    // Ends as the program did, since shells and npm look at that.
    process.removeAllListeners(signal)
    process.kill(process.pid, signal)
  })
}

function findRuntime() {
  try {
    return createRequire(import.meta.url).resolve(`${runtime}/bin/bun`)
  } catch {
    fail(
      `its package ${runtime} is not installed: install latchkey again on this machine, without --omit=optional or --no-optional`,
    )
  }
}

/** Looked at after a failure only, since it takes as long as the rest of this script. */
function isMusl() {
  if (platform !== 'linux' || !process.report) return false
  // Otherwise the report resolves the names of all connected hosts.
  process.report.excludeNetwork = true
  return process.report.getReport().header.glibcVersionRuntime === undefined
}

function fail(found) {
  const reason = isMusl() ? 'it needs glibc, which this Linux lacks (musl): use the container image' : found
  console.error(`latchkey cannot start its runtime Bun on ${platform} ${arch}: ${reason}`)
  process.exit(1)
}
