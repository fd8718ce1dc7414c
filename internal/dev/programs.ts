import { existsSync } from 'node:fs'
import { chmod, readFile, rm, writeFile } from 'node:fs/promises'
import { StoreStartError } from './processes.ts'

/** Receives one line per step, without secrets. */
type OnProgress = (line: string) => void

const redisNames = ['redis-server', 'valkey-server']
const redisMajorMin = 7
/** By preference. chromium-headless-shell has no window and needs 40 % less processor time (version 156 on Debian 12, 2026-11). */
const chromiumNames = [
  'chromium-headless-shell',
  'chromium',
  'chromium-browser',
  'google-chrome',
  'google-chrome-stable',
]
const macChrome = '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome'

/**
 * Finds redis-server or valkey-server 7.0 or newer on the PATH and returns its path. If neither exists, installs Redis with apt when run as
 * root on Debian; otherwise the error names the install command. Repeating the call is safe.
 * @throws StoreStartError
 */
export function ensureRedis(onProgress?: OnProgress): Promise<string> {
  const program = { title: 'Redis', name: 'redis-server', brew: 'redis', other: 'redis or valkey' }
  const missing = 'Redis is needed and neither redis-server nor valkey-server is on the PATH'
  const otherwise = 'set LATCHKEY_REDIS_URL to a Redis of your own'
  return ensure({ ...program, missing, otherwise, find: findRedis }, onProgress)
}

/**
 * Finds the browser for the dashboard tests and returns its path: `CHROMIUM`, or else Chromium or Chrome on the PATH. If none exists,
 * installs Chromium with apt when run as root on Debian; otherwise the error names the install command. Repeating the call is safe.
 * @throws StoreStartError
 */
export async function ensureChromium(onProgress?: OnProgress): Promise<string> {
  const named = process.env['CHROMIUM']
  if (named && existsSync(named)) return named
  if (named)
    throw new StoreStartError(
      `The program ${named} does not exist: set CHROMIUM to the path of Chromium, or unset CHROMIUM`,
    )
  const program = {
    title: 'Chromium',
    name: 'chromium-headless-shell',
    brew: '--cask chromium',
    other: 'chromium',
  }
  const missing = 'The dashboard’s tests need Chromium or Chrome, and neither is on the PATH'
  return ensure(
    { ...program, missing, otherwise: 'set CHROMIUM to its path', find: findChromium },
    onProgress,
  )
}

function findChromium(): string | undefined {
  const onPath = chromiumNames.map((name) => Bun.which(name)).find((path) => path !== null)
  return onPath ?? (existsSync(macChrome) ? macChrome : undefined)
}

/**
 * Finds Python 3.11 or newer with the module `venv` and returns its path. Without `venv`, installs it with apt when run as root on Debian;
 * otherwise the error names the install command. Repeating the call is safe.
 * @throws StoreStartError
 */
export function ensurePython(onProgress?: OnProgress): Promise<string> {
  const program = { title: 'Python', name: 'python3-venv', brew: 'python3', other: 'python3' }
  const missing =
    'The tests of the Python client need Python 3.11 or newer with the modules venv and ensurepip'
  const otherwise = 'put another python3 on the PATH'
  return ensure({ ...program, missing, otherwise, find: findPython }, onProgress)
}

function findPython(): string | undefined {
  const path = Bun.which('python3')
  if (path === null) return undefined
  const check = 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))'
  return Bun.spawnSync([path, '-c', check], { stderr: 'ignore' }).exitCode === 0 ? path : undefined
}

/**
 * Returns the path of Redis, or undefined if none is on the PATH.
 * @throws StoreStartError when every Redis on the PATH is too old
 */
function findRedis(): string | undefined {
  let tooOld: string | undefined
  for (const path of redisNames.map((name) => Bun.which(name)).filter((each) => each !== null)) {
    const version = readVersion(Bun.spawnSync([path, '--version']).stdout.toString()) ?? 'unknown'
    if (Number.parseInt(version, 10) >= redisMajorMin) return path
    tooOld = `${path} is version ${version}`
  }
  if (tooOld === undefined) return undefined
  throw new StoreStartError(
    `${tooOld}, but ${redisMajorMin}.0 or newer is needed. Install a newer version, or set LATCHKEY_REDIS_URL.`,
  )
}

/** Returns the version in the output of `redis-server --version`, or undefined if there is none. */
export function readVersion(text: string): string | undefined {
  return /\bv=(\d+\.\d+\.\d+)/.exec(text)?.[1]
}

interface Program {
  readonly title: string
  readonly name: string
  readonly brew: string
  readonly other: string
  readonly missing: string
  readonly otherwise: string
  readonly find: () => string | undefined
}

async function ensure(program: Program, onProgress?: OnProgress): Promise<string> {
  const { title, name, brew, other, missing, otherwise, find } = program
  const found = find()
  if (found !== undefined) return found
  const hasApt = Bun.which('apt-get') !== null
  if (process.getuid?.() !== 0 || !hasApt) {
    const packaged = hasApt ? `sudo apt-get install ${name}` : `the package ${other} of your system`
    const command = process.platform === 'darwin' ? `brew install ${brew}` : packaged
    throw new StoreStartError(`${missing}. Install it:\n  ${command}\nor ${otherwise}.`)
  }
  onProgress?.(`${title}: not found, installing Debian's package ${name} (apt-get)`)
  const install = () => withoutServices(() => apt('install', '-y', '--no-install-recommends', name))
  let isDone = await install()
  if (!isDone) {
    onProgress?.(`${title}: refreshing the package lists (apt-get update)`)
    isDone = (await apt('update')) && (await install())
  }
  const installed = isDone ? find() : undefined
  if (installed !== undefined) return installed
  throw new StoreStartError(`apt-get could not install ${name}; run apt-get install ${name} to see why`)
}

/** Lets one apt-get of this repository run at a time. apt-get itself waits for an installation, but not for an update of package lists. */
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

/** Runs `work` while a policy script prevents Debian packages from starting services. Keeps a policy script of another program instead. */
async function withoutServices<T>(work: () => Promise<T>): Promise<T> {
  if ((await readFile(policyPath, 'utf8').catch(() => policyText)) !== policyText) return work()
  await writeFile(policyPath, policyText)
  await chmod(policyPath, 0o755)
  try {
    return await work()
  } finally {
    await rm(policyPath, { force: true })
  }
}
