import { closeSync, cpSync, mkdirSync, mkdtempSync, openSync, readFileSync, readSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startCommand, type TestProcess } from '#test/support/api-process.ts'
import { run, runProgram } from './program.ts'

/** What an image is made of, as its archive tells. */
export interface BuiltImage {
  readonly name: string
  /** The folder that holds its archive and its files. */
  readonly folder: string
  /** An OCI archive. */
  readonly archive: string
  /** Of all layers, as they are stored and sent. */
  readonly bytesCompressed: number
  /** Files of its layers, the lowest first. */
  readonly layers: readonly string[]
  readonly architecture: Architecture
  readonly config: ImageConfig
}

/** Processors that there are images for, by the names of the OCI image specification. */
export type Architecture = 'amd64' | 'arm64'

/** What a container is started with, by the names of the OCI image specification. */
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
 * Builds the image by the Dockerfile of this repository, in half a minute; for another processor than this machine's, what can be
 * looked at but not run. The caller removes its folder.
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

/** The processor that a file of the image is a program for, as its ELF header tells. @throws where no layer has it, or it is none */
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
    // e_machine, https://refspecs.linuxfoundation.org/elf/gabi4+/ch4.eheader.html
    return ({ 62: 'amd64', 183: 'arm64' } as const)[header.readUInt16LE(18)]
  }
  throw new Error(`no layer has ${path}`)
}

/** Containers of an image, nearly. */
export interface ImageRuntime {
  /** Where the image's files lie; what is put there is seen inside. */
  readonly root: string
  /** Starts `latchkey` as a pod does, with the image's environment and `env`: no other files, no rights, a root that cannot be written to. The caller ends it. */
  start(args: readonly string[], env?: Readonly<Record<string, string>>): TestProcess
}

/** Unpacks an image. Needs root. */
export async function unpackImage({ name, folder, config }: BuiltImage): Promise<ImageRuntime> {
  const root = join(folder, 'root')
  mkdirSync(root)
  await run([`${import.meta.dir}/unpack-image`, name, root])
  // Where names are looked up is no part of an image.
  for (const file of ['hosts', 'resolv.conf']) cpSync(`/etc/${file}`, join(root, 'etc', file))
  const pairs = (config.Env ?? []).map((pair) => [
    pair.slice(0, pair.indexOf('=')),
    pair.slice(pair.indexOf('=') + 1),
  ])
  // By this machine's PATH the container is made.
  const { PATH: _, ...own } = Object.fromEntries(pairs) as Record<string, string>
  const start: ImageRuntime['start'] = (args, env = {}) =>
    startCommand(
      [`${import.meta.dir}/in-image`, root, ...args],
      { ...own, ...env },
      `latchkey ${args.join(' ')}`,
    )
  return { root, start }
}
