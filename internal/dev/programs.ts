import { existsSync } from 'node:fs'
import { chmod, readFile, rm, writeFile } from 'node:fs/promises'
import { StoreStartError } from './processes.ts'

/** Receives one line per step, without secrets. */
type OnProgress = (line: string) => void

const redisNames = ['redis-server', 'valkey-server']
const redisMajorMin = 7
/** The shell first: it takes 40 % less processor time, since it has no window (156 on Debian 12, 2026-11). */
const chromiumNames = [
  'chromium-headless-shell',
  ...['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'],
]
const macChrome = '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome'

/**
 * Finds redis-server or valkey-server 7.0 or newer on the PATH and returns its path. Where there is none, installs it with apt as root
 * on Debian; elsewhere the error names the command. Repeating it is safe.
 * @throws StoreStartError
 */
export async function ensureRedis(onProgress?: OnProgress): Promise<string> {
  const found = findRedis() ?? (await installed('Redis', 'redis-server', { find: findRedis, onProgress }))
  if (found !== undefined) return found
  throw new StoreStartError(
    `Redis is needed and neither redis-server nor valkey-server is on the PATH. Install it:\n  ${installCommand('redis-server', 'redis', 'redis or valkey')}\nor set LATCHKEY_REDIS_URL to a Redis of your own.`,
  )
}

/**
 * Finds the browser for the dashboard's tests and returns its path: `CHROMIUM`, else Chromium or Chrome on the PATH. Where there is
 * none, installs it with apt as root on Debian; elsewhere the error names the command. Repeating it is safe.
 * @throws StoreStartError
 */
export async function ensureChromium(onProgress?: OnProgress): Promise<string> {
  const named = process.env['CHROMIUM']
  if (named && existsSync(named)) return named
  if (named)
    throw new StoreStartError(
      `There is no program ${named}: set CHROMIUM to the path of Chromium, or unset it`,
    )
  const found =
    findChromium() ??
    (await installed('Chromium', 'chromium-headless-shell', { find: findChromium, onProgress }))
  if (found !== undefined) return found
  throw new StoreStartError(
    `The dashboard's tests need Chromium or Chrome, and neither is on the PATH. Install it:\n  ${installCommand('chromium-headless-shell', '--cask chromium', 'chromium')}\nor set CHROMIUM to its path.`,
  )
}

function findChromium(): string | undefined {
  const onPath = chromiumNames.map((name) => Bun.which(name)).find((path) => path !== null)
  return onPath ?? (existsSync(macChrome) ? macChrome : undefined)
}

/** @throws StoreStartError when every one on the PATH is too old */
function findRedis(): string | undefined {
  let tooOld: string | undefined
  for (const path of redisNames.map((name) => Bun.which(name)).filter((each) => each !== null)) {
    const version = readVersion(Bun.spawnSync([path, '--version']).stdout.toString()) ?? 'unknown'
    if (Number.parseInt(version, 10) >= redisMajorMin) return path
    tooOld = `${path} is version ${version}`
  }
  if (tooOld === undefined) return undefined
  throw new StoreStartError(
    `${tooOld}, and ${redisMajorMin}.0 or newer is needed. Install a newer one, or set LATCHKEY_REDIS_URL.`,
  )
}

/** Parses the output of `redis-server --version`; undefined when it holds no version. */
export function readVersion(text: string): string | undefined {
  return /\bv=(\d+\.\d+\.\d+)/.exec(text)?.[1]
}

function installCommand(debian: string, brew: string, other: string): string {
  if (process.platform === 'darwin') return `brew install ${brew}`
  return Bun.which('apt-get') ? `sudo apt-get install ${debian}` : `the package ${other} of your system`
}

interface Installing {
  readonly find: () => string | undefined
  readonly onProgress: OnProgress | undefined
}

/**
 * Installs a Debian package as root, refreshing the package lists if they are stale; undefined where that is not possible.
 * @throws StoreStartError with the command that shows the reason
 */
async function installed(
  title: string,
  name: string,
  { find, onProgress }: Installing,
): Promise<string | undefined> {
  if (process.getuid?.() !== 0 || Bun.which('apt-get') === null) return undefined
  onProgress?.(`${title}: not found, installing Debian's package ${name} (apt-get)`)
  const install = () => withoutServices(() => apt('install', '-y', '--no-install-recommends', name))
  if (await install()) return find()
  onProgress?.(`${title}: refreshing the package lists (apt-get update)`)
  await apt('update')
  if (await install()) return find()
  throw new StoreStartError(`apt-get could not install ${name}; run apt-get install ${name} to see why`)
}

/** Serializes our own installers: apt-get waits for another one that installs, but not for its package lists. */
const lock = ['flock', '-w', '600', '/var/cache/apt/latchkey.lock']

async function apt(...args: string[]): Promise<boolean> {
  const child = Bun.spawn(
    [...(Bun.which('flock') ? lock : []), 'apt-get', '-q', '-o', 'DPkg::Lock::Timeout=120', ...args],
    {
      env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
      stdio: ['ignore', 'ignore', 'ignore'],
    },
  )
  return (await child.exited) === 0
}

const policyPath = '/usr/sbin/policy-rc.d'
const policyText = '#!/bin/sh\n# Made by Latchkey while it installs packages; safe to remove.\nexit 101\n'

/** Keeps Debian's packages from starting their services, by a policy script. An existing script of another owner is kept. */
async function withoutServices<T>(work: () => Promise<T>): Promise<T> {
  const present = await readFile(policyPath, 'utf8').catch(() => undefined)
  const isOurs = present === undefined || present === policyText
  if (isOurs) {
    await writeFile(policyPath, policyText)
    await chmod(policyPath, 0o755)
  }
  try {
    return await work()
  } finally {
    if (isOurs) await rm(policyPath, { force: true })
  }
}
