import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { description, engines, license, name, packageManager, version } from '../../../package.json'
import { noticesPath } from '../notices.ts'
import { compileCommand, runTool } from './compile-command.ts'

const root = resolve(import.meta.dir, '../../..')
/** Platforms by npm's names. Each has a package with its runtime, and npm installs only the package for its own platform. */
const runtimes = ['linux-x64', 'linux-aarch64', 'darwin-x64', 'darwin-aarch64']

/**
 * Bundles the program and packs it for npm as `latchkey-<version>.tgz` in a folder. The package contains the program's modules, and a
 * launcher that runs them with the Bun version of the compiled program. It has no install script, since many users disable those.
 * @param scratch folder in which the unpacked package is left
 * @throws with the output of Bun or npm
 */
export async function buildPackage(folder: string, scratch: string): Promise<void> {
  const stage = join(scratch, 'package')
  mkdirSync(stage, { recursive: true })
  await bundle(join(stage, 'program'))
  for (const file of ['LICENSE', noticesPath]) copyFileSync(join(root, file), join(stage, file))
  for (const file of ['launch.mjs', 'README.md'])
    copyFileSync(join(import.meta.dir, 'package', file), join(stage, file))
  writeFileSync(join(stage, 'package.json'), `${JSON.stringify(manifest(), null, 2)}\n`)
  await runTool(['npm', 'pack', '--silent', '--pack-destination', folder, stage])
}

/** Uses the options of the compiled program, so that bundle and program consist of the same modules. */
async function bundle(folder: string): Promise<void> {
  const { options, entryPoints } = compileCommand(root)
  const own = options.filter((option) => !/^--(no-)?(compile|bytecode)/.test(option))
  await runTool([process.execPath, 'build', ...own, '--target=bun', `--outdir=${folder}`, ...entryPoints])
}

function manifest(): Readonly<Record<string, unknown>> {
  const runtimeVersion = packageManager.replace('bun@', '')
  return {
    name,
    version,
    description,
    license,
    type: 'module',
    bin: { latchkey: 'launch.mjs' },
    files: ['launch.mjs', 'program', noticesPath],
    engines,
    os: ['linux', 'darwin'],
    cpu: ['x64', 'arm64'],
    // Optional, since each package can be installed on its own platform only.
    optionalDependencies: Object.fromEntries(
      runtimes.map((runtime) => [`@oven/bun-${runtime}`, runtimeVersion]),
    ),
  }
}
