import { existsSync } from 'node:fs'
import { chmod, readFile, rm, writeFile } from 'node:fs/promises'
import { canInstallPackages, installPackage } from './apt.ts'
import { StoreStartError } from './start-error.ts'

/** A server program that speaks Redis' protocol, and its version. */
export interface RedisProgram {
  readonly path: string
  readonly version: string
}

const names = ['redis-server', 'valkey-server']
const majorMin = 7

/**
 * Finds redis-server or valkey-server, 7.0 or newer, on the PATH. Where there is none: as root on Debian and its kin it is
 * installed with apt; elsewhere the error names the command. Safe to repeat.
 * @throws StoreStartError
 */
export async function ensureRedis(onProgress?: (line: string) => void): Promise<RedisProgram> {
  const found = findRedis()
  if (found) return found
  if (canInstallPackages()) {
    await installRedis(onProgress)
    const installed = findRedis()
    if (installed) return installed
  }
  throw new StoreStartError(
    `Redis is needed and neither redis-server nor valkey-server is on the PATH. Install it:\n  ${installCommand()}\nor set LATCHKEY_REDIS_URL to a Redis of your own.`,
  )
}

/** @throws StoreStartError when there are only older ones */
function findRedis(): RedisProgram | undefined {
  let tooOld: RedisProgram | undefined
  for (const name of names) {
    const path = Bun.which(name)
    if (!path) continue
    const version = readVersion(Bun.spawnSync([path, '--version']).stdout.toString())
    if (version && Number.parseInt(version, 10) >= majorMin) return { path, version }
    tooOld = { path, version: version ?? 'unknown' }
  }
  if (!tooOld) return undefined
  throw new StoreStartError(
    `${tooOld.path} is version ${tooOld.version}, and ${majorMin}.0 or newer is needed. Install a newer one, or set LATCHKEY_REDIS_URL.`,
  )
}

/** Reads the version from what `--version` prints; undefined when there is none. */
export function readVersion(text: string): string | undefined {
  return /\bv=(\d+\.\d+\.\d+)/.exec(text)?.[1]
}

function installCommand(): string {
  if (process.platform === 'darwin') return 'brew install redis'
  return Bun.which('apt-get')
    ? 'sudo apt-get install redis-server'
    : 'the package redis or valkey of your system'
}

async function installRedis(onProgress?: (line: string) => void): Promise<void> {
  await withoutServices(() => installPackage('Redis', 'redis-server', onProgress))
}

const policyPath = '/usr/sbin/policy-rc.d'
const policyText = '#!/bin/sh\n# Made by Latchkey while it installs Redis; safe to remove.\nexit 101\n'

/** Debian's packages start their service when installed, unless this script forbids it. One that is there already is kept. */
async function withoutServices(work: () => Promise<void>): Promise<void> {
  const present = existsSync(policyPath) ? await readFile(policyPath, 'utf8') : undefined
  const ours = present === undefined || present === policyText
  if (ours) {
    await writeFile(policyPath, policyText)
    await chmod(policyPath, 0o755)
  }
  try {
    await work()
  } finally {
    if (ours) await rm(policyPath, { force: true })
  }
}
