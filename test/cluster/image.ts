import { cpSync, mkdirSync, mkdtempSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startCommand, type TestProcess } from '#test/support/api-process.ts'
import { run } from './program.ts'

/** What an image is made of, as its archive tells. */
export interface BuiltImage {
  readonly name: string
  /** The folder that holds its archive and its files. */
  readonly folder: string
  /** An OCI archive. */
  readonly archive: string
  /** Of all layers, as they are stored and sent. */
  readonly bytesCompressed: number
  readonly architecture: string
  readonly config: ImageConfig
}

/** What a container is started with, by the names of the OCI image specification. */
export interface ImageConfig {
  readonly User?: string
  readonly Entrypoint?: readonly string[]
  readonly Cmd?: readonly string[]
  readonly Labels?: Readonly<Record<string, string>>
}

interface Manifest {
  readonly config: { readonly digest: string }
  readonly layers: readonly { readonly size: number }[]
}

/** Builds the image by the Dockerfile of this repository, in half a minute. The caller removes its folder. */
export async function buildImage(): Promise<BuiltImage> {
  const folder = mkdtempSync(join(tmpdir(), 'latchkey-image-'))
  const archive = join(folder, 'image.tar')
  const name = (await run([`${import.meta.dir}/build-image`, process.execPath, archive])).trim()
  const layout = join(folder, 'layout')
  mkdirSync(layout)
  await run(['tar', '-xf', archive, '-C', layout])
  const read = (path: string) => JSON.parse(readFileSync(join(layout, path), 'utf8')) as unknown
  const blob = (digest: string) => read(`blobs/${digest.replace(':', '/')}`)
  const index = read('index.json') as { readonly manifests: readonly { readonly digest: string }[] }
  const manifest = blob(index.manifests[0]?.digest ?? '') as Manifest
  const image = blob(manifest.config.digest) as { architecture: string; config: ImageConfig }
  const bytesCompressed = manifest.layers.reduce((sum, { size }) => sum + size, 0)
  return { name, folder, archive, bytesCompressed, architecture: image.architecture, config: image.config }
}

/** Containers of an image, nearly. */
export interface ImageRuntime {
  /** Where the image's files lie; what is put there is seen inside. */
  readonly root: string
  /** Starts `latchkey` as a pod does: no other files, no rights, a root that cannot be written to. The caller ends it. */
  start(args: readonly string[], env?: Readonly<Record<string, string>>): TestProcess
}

/** Unpacks an image. Needs root. */
export async function unpackImage({ name, folder }: BuiltImage): Promise<ImageRuntime> {
  const root = join(folder, 'root')
  mkdirSync(root)
  await run([`${import.meta.dir}/unpack-image`, name, root])
  // Where names are looked up is no part of an image.
  for (const file of ['hosts', 'resolv.conf']) cpSync(`/etc/${file}`, join(root, 'etc', file))
  return {
    root,
    start: (args, env = {}) =>
      startCommand([`${import.meta.dir}/in-image`, root, ...args], env, `latchkey ${args.join(' ')}`),
  }
}
