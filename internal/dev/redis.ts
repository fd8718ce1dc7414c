import { realpathSync } from 'node:fs'
import { chmod, chown, mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { RedisClient } from 'bun'
import { randomToken, within } from '#internal/base/index.ts'
import { endProcesses, spawnChild } from './processes.ts'
import { ensureRedis } from './programs.ts'
import { ownerOf, type RunningStore, type StoreOptions, startServer } from './store.ts'

/** Options of an embedded Redis. */
export interface RedisStartOptions extends StoreOptions {
  /** Additional arguments of redis-server, such as `--maxmemory`, `5mb`. They are visible in the process list. */
  readonly extraArgs?: readonly string[]
  /** Command prefix that runs redis-server by exec in the end, such as a command that first lowers a resource limit. */
  readonly launcher?: readonly string[]
  /** Password of a previous start. Default: a new password. */
  readonly password?: string
}

/** Embedded Redis that runs as a child process. */
export interface RunningRedis extends RunningStore {
  readonly password: string
}

const pingMsMax = 1000

/**
 * Starts Redis on 127.0.0.1, with the data of the previous start if they were durable. First stops a Redis that a killed earlier run left
 * running in the folder.
 * @throws StoreStartError with a remedy
 */
export async function startRedis(options: RedisStartOptions): Promise<RunningRedis> {
  const { dataDir, durable, onProgress } = options
  const program = await ensureRedis(onProgress)
  await mkdir(join(dataDir, 'redis'), { recursive: true, mode: 0o700 })
  const home = realpathSync(join(dataDir, 'redis'))
  const runAs = ownerOf(dataDir)
  if (await endLeftRedis(home)) onProgress?.('Redis: stopped the server that a killed run had left running')
  const password = options.password ?? randomToken()
  const config = configPath(home)
  const logPath = join(home, 'redis.log')
  const urlOf = (port: number) => `redis://:${password}@127.0.0.1:${port}`
  const running = await startServer({
    name: 'Redis',
    logPath,
    port: options.port,
    isReady: (port) => answersPing(urlOf(port)),
    async spawn(port) {
      // The configuration file is created anew, because Redis may have rewritten it. A new file is private before the password is written
      // to it.
      await rm(config, { force: true })
      await writeFile(config, configText(home, { port, password, durable }), { mode: 0o600, flag: 'wx' })
      await chmod(home, 0o700)
      if (runAs) for (const path of [home, config]) await chown(path, runAs.uid, runAs.gid)
      return spawnChild({
        argv: [...(options.launcher ?? []), program, config, ...(options.extraArgs ?? [])],
        runAs,
        logPath,
        stopSignal: 'SIGTERM',
        exitSignal: durable ? 'SIGTERM' : 'SIGKILL',
      })
    },
  })
  return { ...running, url: urlOf(running.port), password }
}

/** Ends the Redis that runs in a folder, found by its command line. Returns whether there was one. */
export async function endLeftRedis(home: string): Promise<boolean> {
  const ended = await endProcesses(
    (command) => command.includes(` ${configPath(home)}`),
    [
      { signal: 'SIGTERM', waitMs: 10_000 },
      { signal: 'SIGKILL', waitMs: 5_000 },
    ],
  )
  return ended.length > 0
}

function configPath(home: string): string {
  return join(home, 'redis.conf')
}

function configText(
  home: string,
  { port, password, durable }: { port: number; password: string; durable: boolean },
): string {
  const lines = [
    'bind 127.0.0.1',
    `port ${port}`,
    `requirepass ${password}`,
    `masterauth ${password}`,
    `dir "${home.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`,
    'daemonize no',
    // Redis must not change its command line, by which `endLeftRedis` finds it.
    'set-proc-title no',
    'save ""',
    // `appendfsync always` writes to disk before each reply, because Redis holds accepted webhooks while Postgres is unavailable.
    ...(durable ? ['appendonly yes', 'appendfsync always'] : ['appendonly no']),
    'maxmemory 256mb',
    'maxmemory-policy noeviction',
  ]
  return `${lines.join('\n')}\n`
}

/** Returns whether Redis replies to PING. Redis replies with an error while it loads its data. */
async function answersPing(url: string): Promise<boolean> {
  const client = new RedisClient(url, { autoReconnect: false, connectionTimeout: pingMsMax })
  const pong = client.send('PING', []).then(
    (answer) => answer === 'PONG',
    () => false,
  )
  return within(pingMsMax, pong, () => false).finally(() => client.close())
}
