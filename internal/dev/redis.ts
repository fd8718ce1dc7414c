import { realpathSync, statSync } from 'node:fs'
import { chmod, chown, mkdir, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { randomToken } from '#internal/base/index.ts'
import { type Child, logTail, type RunAs, spawnChild } from './child.ts'
import { poll } from './poll.ts'
import { freePort, isPortFree } from './ports.ts'
import { endProcesses } from './processes.ts'
import { ensureRedis } from './redis-program.ts'
import { StoreStartError } from './start-error.ts'
import { portTriesMax, type RunningStore, readyWithinMs, type StoreOptions } from './store.ts'

const pingMsMax = 1000

/** What a Redis is started with beside the folder. */
export interface RedisStartOptions extends StoreOptions {
  /** Further arguments of redis-server, such as `--maxmemory`, `5mb`; visible in the process list. */
  readonly extraArgs?: readonly string[]
  /** A command that ends by becoming the program of its arguments, such as one that first lowers a limit; default none. */
  readonly launcher?: readonly string[]
  /** Keeps an earlier start's port and password, so that clients find it again; both are drawn when absent. */
  readonly reuse?: { readonly port: number; readonly password: string }
}

/** A Redis that runs as our child. */
export interface RunningRedis extends RunningStore {
  readonly port: number
  readonly password: string
  /** Sends a signal, such as SIGSTOP to make it hang. */
  signal(signal: NodeJS.Signals): void
}

/**
 * Starts a Redis of its own on a free port of 127.0.0.1, with the data of the last start if it was durable. What a killed
 * predecessor left running in the folder is ended first. The caller sees to it that one process at a time uses the folder.
 * @throws StoreStartError with what to do
 */
export async function startRedis(options: RedisStartOptions): Promise<RunningRedis> {
  const program = await ensureRedis(options.onProgress)
  const home = join(options.dataDir, 'redis')
  await mkdir(home, { recursive: true, mode: 0o700 })
  const place = { home: realpathSync(home), runAs: ownerOf(home) }
  if (await endLeftRedis(place.home)) options.onProgress?.('Redis: ended what a killed run had left')
  const password = options.reuse?.password ?? randomToken()
  const tries = options.reuse ? 1 : portTriesMax
  for (let attempt = 1; attempt <= tries; attempt += 1) {
    const port = options.reuse?.port ?? (await freePort())
    const config = await writeConfig(place, { port, password, durable: options.durable })
    const argv = [...(options.launcher ?? []), program.path, config, ...(options.extraArgs ?? [])]
    const child = spawnRedis(argv, place, options.durable)
    if (await becomesReady(child, port, password)) return running(child, port, password)
    const portTaken = child.hasExited() && !(await isPortFree(port))
    await child.stop()
    if (!portTaken) break
  }
  const log = logOf(place.home)
  throw new StoreStartError(`Redis did not start; the last lines of ${log}:\n${logTail(log)}`)
}

/** Ends whatever runs in the folder, found by its command line. Gives true when there was something. */
export async function endLeftRedis(home: string): Promise<boolean> {
  const ended = await endProcesses(
    ({ command }) => command.includes(` ${configOf(home)}`),
    [
      { signal: 'SIGTERM', waitMs: 10_000 },
      { signal: 'SIGKILL', waitMs: 5_000 },
    ],
  )
  return ended.length > 0
}

interface RedisPlace {
  readonly home: string
  readonly runAs: RunAs | undefined
}

/** As root in a folder of another user: that user, so that it can use its folder afterwards. */
function ownerOf(home: string): RunAs | undefined {
  if (process.getuid?.() !== 0) return undefined
  const { uid, gid } = statSync(join(home, '..'))
  return uid === 0 ? undefined : { uid, gid }
}

function configOf(home: string): string {
  return join(home, 'redis.conf')
}

function logOf(home: string): string {
  return join(home, 'redis.log')
}

interface Settings {
  readonly port: number
  readonly password: string
  readonly durable: boolean
}

async function writeConfig(place: RedisPlace, settings: Settings): Promise<string> {
  const path = configOf(place.home)
  const lines = [
    'bind 127.0.0.1',
    `port ${settings.port}`,
    `requirepass ${settings.password}`,
    `masterauth ${settings.password}`,
    `dir "${place.home.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`,
    'daemonize no',
    // The command line stays as it is, since we know our own processes by it.
    'set-proc-title no',
    'save ""',
    // Synced before each answer: only then may it hold webhooks while Postgres is away.
    ...(settings.durable ? ['appendonly yes', 'appendfsync always'] : ['appendonly no']),
    'maxmemory 256mb',
    'maxmemory-policy noeviction',
  ]
  // Replaced rather than written to: Redis may have rewritten the file, and its mode holds from the first byte on.
  await rm(path, { force: true })
  await writeFile(path, `${lines.join('\n')}\n`, { mode: 0o600, flag: 'wx' })
  await chmod(place.home, 0o700)
  if (place.runAs)
    for (const owned of [place.home, path]) await chown(owned, place.runAs.uid, place.runAs.gid)
  return path
}

function spawnRedis(argv: readonly string[], place: RedisPlace, durable: boolean): Child {
  return spawnChild({
    argv,
    ...(place.runAs && { runAs: place.runAs }),
    logPath: logOf(place.home),
    stopSignal: 'SIGTERM',
    exitSignal: durable ? 'SIGTERM' : 'SIGKILL',
  })
}

function running(child: Child, port: number, password: string): RunningRedis {
  const { pid, signal, stop } = child
  const url = `redis://:${password}@127.0.0.1:${port}`
  return { url, pid, port, password, signal, stop, exited: child.exited.then(() => undefined) }
}

/** Waits until it answers; false when the process ends or hangs. */
async function becomesReady(child: Child, port: number, password: string): Promise<boolean> {
  const outcome = await poll(
    async () => {
      if (child.hasExited()) return 'ended'
      return (await ping(port, password)) ? 'ready' : undefined
    },
    { deadlineMs: readyWithinMs },
  )
  return outcome === 'ready'
}

/** True once it answers PONG: while it loads its data it answers LOADING. */
function ping(port: number, password: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' })
    let answer = ''
    const finish = () => {
      socket.destroy()
      resolve(answer.includes('+PONG'))
    }
    socket.setTimeout(pingMsMax, finish)
    socket.on('error', finish)
    socket.on('close', finish)
    socket.on('connect', () => socket.write(`AUTH ${password}\r\nPING\r\n`))
    socket.on('data', (bytes) => {
      answer += bytes.toString('latin1')
      if (answer.split('\r\n').length > 2) finish()
    })
  })
}
