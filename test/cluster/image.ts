import { closeSync, cpSync, mkdirSync, mkdtempSync, openSync, readFileSync, readSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startCommand, type TestProcess } from '#test/support/processes/api-process.ts'
import { run, runProgram } from './program.ts'

/** Contents of an image archive. */
export interface BuiltImage {
  readonly name: string
  /** Folder with the archive and the unpacked files. */
  readonly folder: string
  /** Path of the OCI archive. */
  readonly archive: string
  /** Compressed size of all layers. */
  readonly bytesCompressed: number
  /** Layer files, lowest first. */
  readonly layers: readonly string[]
  readonly architecture: Architecture
  readonly config: ImageConfig
}

/** Supported architectures, named as in the OCI image specification. */
export type Architecture = 'amd64' | 'arm64'

/** Container configuration, with the names of the OCI image specification. */
export interface ImageConfig {
  readonly User?: string
  readonly Entrypoint?: readonly string[]
  readonly Cmd?: readonly string[]
  readonly Labels?: Readonly<Record<string, string>>
  readonly Env?: readonly string[]
}

interface Manifest {
  readonly config: { readonly digest: string }
  readonly layers: readonly { readonly size: number; readonly digest: string }[]
}

/**
 * Builds the image from this repository's Dockerfile in half a minute. A foreign architecture's image can be
 * inspected but not run. The caller removes its folder.
 */
export async function buildImage(architecture?: Architecture): Promise<BuiltImage> {
  const folder = mkdtempSync(join(tmpdir(), 'latchkey-image-'))
  const archive = join(folder, 'image.tar')
  const other = architecture === undefined ? [] : [`localhost/latchkey:test-${architecture}`, architecture]
  const name = (await run([`${import.meta.dir}/build-image`, process.execPath, archive, ...other])).trim()
  const layout = join(folder, 'layout')
  mkdirSync(layout)
  await run(['tar', '-xf', archive, '-C', layout])
  const read = (path: string) => JSON.parse(readFileSync(join(layout, path), 'utf8')) as unknown
  const pathOf = (digest: string) => `blobs/${digest.replace(':', '/')}`
  const blob = (digest: string) => read(pathOf(digest))
  const index = read('index.json') as { readonly manifests: readonly { readonly digest: string }[] }
  const manifest = blob(index.manifests[0]?.digest ?? '') as Manifest
  const image = blob(manifest.config.digest) as { architecture: Architecture; config: ImageConfig }
  const bytesCompressed = manifest.layers.reduce((sum, { size }) => sum + size, 0)
  const layers = manifest.layers.map(({ digest }) => join(layout, pathOf(digest)))
  const { config } = image
  return { name, folder, archive, bytesCompressed, layers, architecture: image.architecture, config }
}

/** Returns the architecture in a program's ELF header. @throws if no layer has the file or it is no ELF program */
export async function programArchitecture(
  { folder, layers }: BuiltImage,
  path: string,
): Promise<Architecture | undefined> {
  const target = mkdtempSync(join(folder, 'file-'))
  for (const layer of layers.toReversed()) {
    const { exitCode } = await runProgram(['tar', '-xzf', layer, '-C', target, path])
    if (exitCode !== 0) continue
    const header = Buffer.alloc(20)
    const file = openSync(join(target, path), 'r')
    readSync(file, header)
    closeSync(file)
    if (header.toString('latin1', 0, 4) !== '\x7fELF') throw new Error(`${path} is no program`)
    // Reads e_machine of the ELF header: https://refspecs.linuxfoundation.org/elf/gabi4+/ch4.eheader.html
    return ({ 62: 'amd64', 183: 'arm64' } as const)[header.readUInt16LE(18)]
  }
  throw new Error(`no layer has ${path}`)
}

/** Starts processes from an unpacked image, similar to containers. */
export interface ImageRuntime {
  /** Root folder of the processes; files placed there are visible to them. */
  readonly root: string
  /** Starts `latchkey` as a pod does: the image's files and environment plus `env`, no capabilities, read-only root. The caller ends it. */
  start(args: readonly string[], env?: Readonly<Record<string, string>>): TestProcess
}

/** Unpacks an image. Requires root. */
export async function unpackImage({ name, folder, config }: BuiltImage): Promise<ImageRuntime> {
  const root = join(folder, 'root')
  mkdirSync(root)
  await run([`${import.meta.dir}/unpack-image`, name, root])
  // Copies the DNS configuration of the host, since an image has no such files.
  for (const file of ['hosts', 'resolv.conf']) cpSync(`/etc/${file}`, join(root, 'etc', file))
  const pairs = (config.Env ?? []).map((pair) => [
    pair.slice(0, pair.indexOf('=')),
    pair.slice(pair.indexOf('=') + 1),
  ])
  // Drops the `PATH` of the image, because `in-image` needs the host's.
  const { PATH: _, ...own } = Object.fromEntries(pairs) as Record<string, string>
  const start: ImageRuntime['start'] = (args, env = {}) =>
    startCommand(
      [`${import.meta.dir}/in-image`, root, ...args],
      { ...own, ...env },
      `latchkey ${args.join(' ')}`,
    )
  return { root, start }
}
