import { type FSWatcher, watch } from 'node:fs'
import { mkdir, open, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { stringify } from 'yaml'
import type { SecretManifest } from '../manifest.ts'
import { tenantApiVersion } from '../model.ts'
import { tenantLabel } from '../secret-names.ts'
import type {
  GeneratedSecret,
  SecretRead,
  SecretWritten,
  SourceProblem,
  SourceState,
  TenantManifest,
  TenantSource,
} from '../source.ts'
import { type FolderContent, FolderReader } from './folder-reader.ts'
import { folderUidPrefix, identityOf } from './parse-file.ts'

/** Which folders a source reads. */
export interface FolderSourceOptions {
  /** Tenants and the Secrets they name. */
  readonly tenantsDir: string
  /** Where generated Secrets are written (files 0600, folder 0700) and found again; need not exist yet. */
  readonly secretsDir: string
}

/** How long changes may settle before a hint is passed on: an editor writes a file in several steps. */
const settleMs = 50

/**
 * Tenants from a folder of manifests, the same as in a cluster. Changes are found by reading again; the file system's own
 * notices only make it sooner.
 */
export function createFolderSource(options: FolderSourceOptions): TenantSource {
  return new FolderSource(options)
}

class FolderSource implements TenantSource {
  readonly uidPrefix = folderUidPrefix
  readonly #options: FolderSourceOptions
  readonly #tenants: FolderReader
  readonly #generated: FolderReader
  #state: SourceState | undefined
  #secrets = new Map<string, SecretManifest>()
  #heldSecrets: ReadonlySet<string> = new Set()

  constructor(options: FolderSourceOptions) {
    this.#options = options
    this.#tenants = new FolderReader({ dir: options.tenantsDir, mayBeAbsent: false })
    this.#generated = new FolderReader({ dir: options.secretsDir, mayBeAbsent: true })
  }

  async read(): Promise<SourceState> {
    const [tenants, generated] = [await this.#tenants.read(), await this.#generated.read()]
    if (this.#state !== undefined && !tenants.changed && !generated.changed) return this.#state
    this.#state = this.#merge(tenants, generated, (this.#state?.revision ?? 0) + 1)
    return this.#state
  }

  async readSecret(namespace: string, name: string): Promise<SecretRead> {
    const state = this.#state ?? (await this.read())
    const identity = identityOf('Secret', namespace, name)
    const secret = this.#secrets.get(identity)
    if (secret !== undefined) return { kind: 'found', secret }
    if (state.complete && !this.#heldSecrets.has(identity)) return { kind: 'missing' }
    const message = 'it may stand in a file that is broken: mend the file named in the log'
    return { kind: 'unreadable', reason: 'FileBroken', message }
  }

  async writeSecret(secret: GeneratedSecret): Promise<SecretWritten> {
    await this.read()
    const there = await this.readSecret(secret.namespace, secret.name)
    if (there.kind === 'unreadable') return { kind: 'taken' }
    if (there.kind === 'found' && there.secret.owner?.uid !== secret.owner.uid) return { kind: 'taken' }
    // No dot can be in a namespace, so that no two Secrets share a file.
    await writePrivately(
      this.#options.secretsDir,
      `${secret.namespace}.${secret.name}.yaml`,
      manifestOf(secret),
    )
    await this.read()
    return { kind: 'written' }
  }

  onHint(listener: () => void): () => void {
    let timer: ReturnType<typeof setTimeout> | undefined
    const settle = () => {
      clearTimeout(timer)
      timer = setTimeout(listener, settleMs)
    }
    const watchers = [this.#options.tenantsDir, this.#options.secretsDir].map((dir) =>
      watchQuietly(dir, settle),
    )
    return () => {
      clearTimeout(timer)
      for (const watcher of watchers) watcher?.close()
    }
  }

  #merge(tenants: FolderContent, generated: FolderContent, revision: number): SourceState {
    const problems: SourceProblem[] = [...tenants.problems, ...generated.problems]
    const found = new Map<string, TenantManifest>()
    const secrets = new Map<string, SecretManifest>()
    const files = new Map<string, string>()
    for (const { file, document } of [...tenants.documents, ...generated.documents]) {
      const { identity } = document
      const first = files.get(identity)
      if (first !== undefined) {
        problems.push({
          file,
          line: document.line,
          field: 'metadata.name',
          message: `${identity} also stands in ${first}`,
        })
        continue
      }
      files.set(identity, file)
      if (document.kind === 'tenant') found.set(identity, document.tenant)
      else secrets.set(identity, document.secret)
    }
    this.#secrets = secrets
    this.#heldSecrets = new Set([...tenants.held, ...generated.held])
    return {
      revision,
      tenants: [...found.values()],
      problems,
      heldUids: heldUids(tenants.held),
      complete: tenants.complete && generated.complete,
    }
  }
}

function heldUids(held: ReadonlySet<string>): ReadonlySet<string> {
  const prefix = 'Tenant '
  const tenants = [...held].filter((identity) => identity.startsWith(prefix))
  return new Set(tenants.map((identity) => folderUidPrefix + identity.slice(prefix.length)))
}

/** A folder that cannot be watched, or not yet, is still read again and again: no watcher is no failure. */
function watchQuietly(dir: string, listener: () => void): FSWatcher | undefined {
  try {
    const watcher = watch(dir, listener)
    watcher.on('error', () => watcher.close())
    return watcher
  } catch {
    return undefined
  }
}

/** Whole or not at all, also after a crash, and never readable by others. */
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
