import { type FSWatcher, watch } from 'node:fs'
import { mkdir, open, readdir, readFile, rename, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { type ObjectPlace, objectKey } from '#internal/kube/index.ts'
import { superviseLoop } from '#internal/process/index.ts'
import type { Health, Logger } from '#internal/telemetry/index.ts'
import { tenantApiVersion } from '../model.ts'
import type { ProviderObject, ProviderSource } from '../providers/provider-object.ts'
import { type SecretManifest, tenantLabel } from '../secret-manifest.ts'
import type { TenantStatus } from '../status-schemas.ts'
import { slugOf, type TenantObject } from '../tenant-object.ts'
import {
  folderUidPrefix,
  type GeneratedSecret,
  type SecretRead,
  type SecretWritten,
  type TenantSecrets,
  type TenantSource,
} from '../tenant-source.ts'
import {
  type FileDocument,
  type FolderTenant,
  identityOf,
  type ParsedFile,
  parseFile,
  type SourceProblem,
} from './parse-file.ts'

/** Options of a folder source. */
export interface FolderOptions {
  readonly tenantsDir: string
  /** Files 0600, folder 0700. Created if missing. */
  readonly secretsDir: string
  readonly log: Pick<Logger, 'info' | 'warn' | 'error'>
  /** Converts the URLs of callbacks and notifications. Default: URLs stay unchanged. */
  readonly callbackUrl?: ((url: string) => string) | undefined
  /** Maximum interval between two reads, default 1 s. File system events cause earlier reads. */
  readonly pollMs?: number
  readonly health?: Health
  /**
   * `production`: a tenant without a manifest stays active, so that an empty or wrong folder deletes nothing. A tenant is deleted only if
   * its manifest has the annotation `latchkey.dev/delete: "true"`. A generated Secret whose file is missing is not generated again. A file
   * with a Secret that other users can read is refused. `development` (default): a tenant without a manifest is deleted as its policy says.
   */
  readonly rules?: 'development' | 'production' | undefined
}

export const fileBytesMax = 1_048_576
export const filesMax = 1_000
/** Delay of a read after a file system event, because editors write a file in several steps. */
const debounceMs = 50
const readMsMax = 60_000
const jitter = 0.1

/** `good`: last valid version of each document, by identity. `held`: identities of broken documents that were never valid. */
interface FileState {
  readonly signature: string
  readonly good: ReadonlyMap<string, Exclude<FileDocument, { kind: 'broken' }>>
  readonly held: readonly string[]
  readonly problems: readonly SourceProblem[]
  /** False while a broken document may contain a tenant whose name cannot be read. */
  readonly complete: boolean
}

/**
 * Reads the Tenants and Providers of a folder's `.yaml`, `.yml` and `.json` files, without subfolders. A broken document keeps its last valid content
 * until it is fixed. While a file can contain unknown tenants, no missing tenant counts as deleted.
 */
export class FolderSource implements TenantSource {
  readonly vanishedData = 'asPolicySays'
  readonly resumesMovedCallback = true
  readonly #options: FolderOptions
  readonly #tenants = new Map<string, FolderTenant>()
  readonly #secrets = new Map<string, SecretManifest>()
  readonly #providers = new Map<string, ProviderObject>()
  readonly #providerListeners = new Set<() => void>()
  readonly providers: ProviderSource = {
    all: () => (this.#revision > 0 ? [...this.#providers.values()] : undefined),
    isComplete: () => this.#complete,
    owns: (stored) => this.owns(stored),
    follow: (listener) => {
      this.#providerListeners.add(listener)
      return () => void this.#providerListeners.delete(listener)
    },
    hold: async () => true,
    release: async () => undefined,
    applyStatus: async ({ metadata: { name } }, status) => {
      const object = this.#providers.get(name)
      if (object !== undefined) this.#providers.set(name, { ...object, status })
    },
  }
  #files = new Map<string, FileState>()
  #held: ReadonlySet<string> = new Set()
  /** Keys of the tenants whose manifests ask for their deletion. */
  readonly #deleted = new Set<string>()
  /** Keys of tenants that have no manifest, but stay active under the rules `production`. */
  readonly #kept = new Set<string>()
  #problems: readonly SourceProblem[] = []
  #complete = false
  #revision = 0
  #lastRead: Promise<unknown> = Promise.resolve()

  constructor(options: FolderOptions) {
    this.#options = options
  }

  /** Returns the revision, which increases whenever the files or the folders' problems change. Never rejects; see `problems`. */
  refresh(): Promise<number> {
    // Reads are serialized, so that an older one never replaces a newer one.
    const read = this.#lastRead.then(() => this.#read())
    this.#lastRead = read
    return read
  }

  /** Returns the number of tenants without a manifest that `isAbsent` has kept active since `settled`. */
  keptCount(): number {
    return this.#kept.size
  }

  problems(): readonly SourceProblem[] {
    return this.#problems
  }

  owns({ uid }: { readonly uid: string }): boolean {
    return uid.startsWith(folderUidPrefix)
  }

  async settled(): Promise<void> {
    this.#kept.clear()
    await this.refresh()
  }

  tenant(place: ObjectPlace): FolderTenant | undefined {
    return this.#tenants.get(objectKey(place))
  }

  fileOf(place: ObjectPlace): string | undefined {
    const identity = identityOf('Tenant', place)
    for (const [file, { good }] of this.#files) if (good.has(identity)) return file
    return undefined
  }

  tenants(): IterableIterator<FolderTenant> {
    return this.#tenants.values()
  }

  claimants(slug: string): readonly TenantObject[] {
    return [...this.#tenants.values()].filter((each) => slugOf(each) === slug)
  }

  isComplete(): boolean {
    return this.#complete
  }

  async isAbsent(place: ObjectPlace): Promise<boolean> {
    await this.refresh()
    const identity = identityOf('Tenant', place)
    if (this.#options.rules === 'production') return this.#isToDelete(objectKey(place))
    return this.#complete && !this.#held.has(identity) && !this.#tenants.has(objectKey(place))
  }

  follow(listener: () => void): () => Promise<void> {
    const { tenantsDir, secretsDir, pollMs = 1_000, health, log } = this.#options
    let announced = this.#revision
    const loop = superviseLoop({
      name: 'tenants folder',
      // The interval including its jitter is at most pollMs.
      intervalMs: pollMs / (1 + jitter),
      jitter,
      turnMsMax: readMsMax,
      runOnce: async () => {
        const revision = await this.refresh()
        if (revision === announced) return
        announced = revision
        listener()
      },
      onError: (error) => log.error({ error: String(error) }, 'tenants folder could not be read'),
      ...(health && { health }),
    })
    let timer: ReturnType<typeof setTimeout> | undefined
    const debounce = () => {
      clearTimeout(timer)
      timer = setTimeout(() => loop.wake(), debounceMs)
    }
    const watchers = [tenantsDir, secretsDir].map((dir) => watchQuietly(dir, debounce))
    return async () => {
      clearTimeout(timer)
      for (const watcher of watchers) watcher?.close()
      await loop.stop()
    }
  }

  secretsOf(_manifest: unknown, mayWrite: () => boolean): TenantSecrets {
    return {
      readSecret: async (namespace, name) => this.#readSecret({ namespace, name }),
      writeSecret: (secret) =>
        mayWrite() ? this.#writeSecret(secret) : Promise.resolve({ kind: 'taken' as const }),
      relabel: () => Promise.resolve([]),
    }
  }

  async hold(object: TenantObject): Promise<TenantObject> {
    return object
  }

  async release(): Promise<boolean> {
    return true
  }

  /** Stores the status in memory only. */
  async applyStatus({ metadata }: TenantObject, status: TenantStatus): Promise<boolean> {
    const key = objectKey(metadata)
    const object = this.#tenants.get(key)
    if (object !== undefined) this.#tenants.set(key, { ...object, status })
    return object !== undefined
  }

  async removeAnnotation(): Promise<void> {}

  record(): void {}

  #isToDelete(key: string): boolean {
    if (this.#deleted.has(key)) return true
    if (!this.#tenants.has(key) && !this.#kept.has(key)) {
      this.#kept.add(key)
      this.#options.log.warn(
        { tenant: key },
        'tenant has no manifest in the folder and is kept; to delete it, restore the manifest with the annotation latchkey.dev/delete: "true"',
      )
    }
    return false
  }

  #readSecret(place: ObjectPlace): SecretRead {
    const secret = this.#secrets.get(objectKey(place))
    if (secret !== undefined) return { kind: 'found', secret }
    if (this.#complete && !this.#held.has(identityOf('Secret', place)))
      return { kind: 'missing', ...(this.#options.rules === 'production' && { mayBeElsewhere: true }) }
    const message = 'a broken file may contain it: fix the file that the log names'
    return { kind: 'unreadable', reason: 'FileBroken', message }
  }

  async #writeSecret(secret: GeneratedSecret): Promise<SecretWritten> {
    await this.refresh()
    const before = this.#readSecret(secret)
    if (before.kind === 'unreadable') return { kind: 'taken' }
    if (before.kind === 'found' && before.secret.owner?.uid !== secret.owner.uid) return { kind: 'taken' }
    // The name is unambiguous, because a namespace contains no dot.
    const name = `${secret.namespace}.${secret.name}.yaml`
    await writePrivately(this.#options.secretsDir, name, manifestOf(secret))
    await this.refresh()
    return { kind: 'written' }
  }

  async #read(): Promise<number> {
    const files = new Map<string, FileState>()
    const problems: SourceProblem[] = []
    const { tenantsDir, secretsDir, rules } = this.#options
    for (const dir of [tenantsDir, secretsDir]) {
      const listed = await listManifests(dir, { mayBeMissing: dir === secretsDir })
      if (listed.problem !== undefined) problems.push(problemOf(dir, listed.problem))
      const kept = [...this.#files.keys()].filter((path) => path.startsWith(join(dir, '/')))
      for (const path of listed.paths ?? kept) {
        const before = this.#files.get(path)
        const state =
          listed.paths === undefined ? before : await readState(path, before, rules === 'production')
        if (state !== undefined) files.set(path, state)
      }
    }
    const isSame =
      files.size === this.#files.size && [...files].every(([path, state]) => this.#files.get(path) === state)
    const folderProblems = this.#problems.filter(({ file }) => file === tenantsDir || file === secretsDir)
    const hadSameProblems = JSON.stringify(folderProblems) === JSON.stringify(problems)
    if (this.#revision > 0 && isSame && hadSameProblems) return this.#revision
    this.#files = files
    this.#merge(problems)
    this.#revision += 1
    for (const listener of this.#providerListeners) listener()
    return this.#revision
  }

  /** If a name is repeated, the first document takes precedence. */
  #merge(folderProblems: readonly SourceProblem[]): void {
    const { callbackUrl = (url) => url } = this.#options
    const problems = [...folderProblems, ...[...this.#files.values()].flatMap((state) => state.problems)]
    const before = new Map(this.#tenants)
    const providersBefore = new Map(this.#providers)
    const firsts = new Map<string, string>()
    this.#tenants.clear()
    this.#deleted.clear()
    this.#secrets.clear()
    this.#providers.clear()
    for (const [file, { good }] of this.#files)
      for (const document of good.values()) {
        const { identity, line } = document
        const first = firsts.get(identity)
        if (first !== undefined) {
          const message = `${identity} is also defined in ${first}`
          problems.push({ file, line, field: 'metadata.name', message })
          continue
        }
        firsts.set(identity, file)
        if (document.kind === 'secret') {
          this.#secrets.set(objectKey(document.secret), document.secret)
          continue
        }
        if (document.kind === 'provider') {
          const { metadata: own, ...provider } = document.provider
          const status = providersBefore.get(own.name)?.status
          this.#providers.set(own.name, { ...provider, metadata: own, ...(status && { status }) })
          continue
        }
        const { metadata, spec } = document.tenant
        this.#kept.delete(objectKey(metadata))
        if (document.isToDelete) {
          this.#deleted.add(objectKey(metadata))
          continue
        }
        const { callback: written, notifications: notified } = spec
        const callback = written && { ...written, url: callbackUrl(written.url) }
        const notifications =
          notified?.url === undefined ? notified : { ...notified, url: callbackUrl(notified.url) }
        const status = before.get(objectKey(metadata))?.status
        const tenant = {
          metadata,
          spec: { ...spec, ...(callback && { callback }), ...(notifications && { notifications }) },
          ...(status && { status }),
        }
        this.#tenants.set(objectKey(metadata), tenant)
      }
    this.#held = new Set([...this.#files.values()].flatMap(({ held }) => held))
    this.#complete =
      folderProblems.length === 0 && [...this.#files.values()].every(({ complete }) => complete)
    this.#logProblems(problems)
  }

  #logProblems(problems: readonly SourceProblem[]): void {
    const { log } = this.#options
    const known = new Set(this.#problems.map((problem) => JSON.stringify(problem)))
    const present = new Set(problems.map((problem) => JSON.stringify(problem)))
    for (const problem of problems)
      if (!known.has(JSON.stringify(problem)))
        log.error({ ...problem }, 'manifest is invalid, so its last valid content still applies')
    const fixed = known.difference(present).size
    if (fixed > 0) log.info({ fixed, left: present.size }, 'manifests were fixed')
    this.#problems = problems
  }
}

/** `paths` is undefined if the folder cannot be listed. */
async function listManifests(
  dir: string,
  { mayBeMissing }: { readonly mayBeMissing: boolean },
): Promise<{ readonly paths?: readonly string[]; readonly problem?: string }> {
  try {
    const names = (await readdir(dir)).filter((name) => /^[^.].*\.(ya?ml|json)$/.test(name)).sort()
    const paths = names.slice(0, filesMax).map((name) => join(dir, name))
    if (names.length <= filesMax) return { paths }
    return { paths, problem: `folder has more than ${filesMax} files: the rest is not read` }
  } catch (error) {
    const code = codeOf(error)
    if (code === 'ENOENT' && mayBeMissing) return { paths: [] }
    return { problem: `folder cannot be read (${code}): its last content still applies` }
  }
}

/** Reads only if size, times or inode changed. Returns undefined if the file no longer exists. */
async function readState(
  path: string,
  before: FileState | undefined,
  needsPrivateSecrets: boolean,
): Promise<FileState | undefined> {
  try {
    const found = await stat(path, { bigint: true })
    const { size, mtimeNs, ctimeNs, ino, mode } = found
    const signature = `${ino}.${size}.${mtimeNs}.${ctimeNs}`
    if (before?.signature === signature) return before
    // Refuses a pipe, since reading one could wait forever.
    if (!found.isFile()) return unreadable(path, signature, 'is not a file', before)
    if (size > fileBytesMax)
      return unreadable(path, signature, `is larger than ${fileBytesMax} bytes`, before)
    const parsed = parseFile(await readFile(path, 'utf8'), { file: path, version: `${size}-${mtimeNs}` })
    const isOpen = needsPrivateSecrets && (mode & 0o007n) !== 0n
    if (isOpen && parsed.documents.some(({ kind }) => kind === 'secret'))
      return unreadable(path, signature, openToOthers, before)
    return nextState(parsed, signature, before)
  } catch (error) {
    const code = codeOf(error)
    if (code === 'ENOENT') return undefined
    const signature = `error ${code}`
    return before?.signature === signature
      ? before
      : unreadable(path, signature, `cannot be read (${code})`, before)
  }
}

const openToOthers = 'has a Secret, and other users can read or write the file: run chmod o-rwx on it'

function unreadable(
  path: string,
  signature: string,
  message: string,
  before: FileState | undefined,
): FileState {
  const problems = [problemOf(path, message)]
  return nextState({ kind: 'unreadable', file: path, documents: [], problems }, signature, before)
}

function nextState(parsed: ParsedFile, signature: string, before: FileState | undefined): FileState {
  if (parsed.kind === 'unreadable') {
    const { good = new Map(), held = [], complete = false } = before ?? {}
    return { signature, good, held, complete, problems: parsed.problems }
  }
  // Keeps all earlier documents of the file while it contains a broken document without a readable name, which may be any of them.
  const isNameless = parsed.documents.some(({ identity }) => identity === undefined)
  const good = new Map(isNameless ? before?.good : undefined)
  const held = isNameless ? [...(before?.held ?? [])] : []
  const problems = [...parsed.problems]
  const seen = new Set<string>()
  for (const document of parsed.documents) {
    const { identity, line } = document
    if (identity === undefined) continue
    if (seen.has(identity)) {
      const message = `${identity} is defined twice`
      problems.push({ file: parsed.file, line, field: 'metadata.name', message })
      continue
    }
    seen.add(identity)
    const usable = document.kind === 'broken' ? before?.good.get(identity) : document
    if (usable === undefined) held.push(identity)
    else good.set(identity, usable)
  }
  return { signature, good, held, problems, complete: !isNameless || before?.complete === true }
}

function problemOf(file: string, message: string): SourceProblem {
  return { file, line: undefined, field: '', message }
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : 'unknown'
}

/** Returns undefined on failure; polling still finds changes. */
function watchQuietly(dir: string, listener: () => void): FSWatcher | undefined {
  try {
    const watcher = watch(dir, listener)
    watcher.on('error', () => watcher.close())
    return watcher
  } catch {
    return undefined
  }
}

/** Other users can never read the file. Atomic even if the process crashes. */
async function writePrivately(dir: string, name: string, text: string): Promise<void> {
  await mkdir(dir, { recursive: true, mode: 0o700 })
  const unfinished = join(dir, `.${name}.${process.pid}`)
  const handle = await open(unfinished, 'w', 0o600)
  try {
    await handle.writeFile(text)
    await handle.sync()
  } finally {
    await handle.close()
  }
  await rename(unfinished, join(dir, name))
}

function manifestOf({ namespace, name, values, annotations, owner }: GeneratedSecret): string {
  return stringify({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: {
      name,
      namespace,
      labels: { [tenantLabel]: owner.name },
      annotations,
      ownerReferences: [
        { apiVersion: tenantApiVersion, kind: 'Tenant', name: owner.name, uid: owner.uid, controller: true },
      ],
    },
    type: 'Opaque',
    stringData: values,
  })
}
