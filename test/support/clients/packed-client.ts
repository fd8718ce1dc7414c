import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { runToEnd } from './client-scene.ts'

const client = resolve(import.meta.dir, '../../../clients/typescript')

/** Packs the client library for TypeScript into a folder, and returns the path of the archive. @throws with the output of npm */
export async function packClient(folder: string): Promise<string> {
  await run(['npm', 'pack', '--silent', '--pack-destination', folder, client])
  return join(folder, readdirSync(folder).find((name) => name.endsWith('.tgz')) ?? '')
}

/**
 * Makes an empty project in a folder, and installs archives and packages into it. @param flags more options of npm @throws with the output
 * of npm
 */
export async function makeProject(
  folder: string,
  packages: readonly string[],
  flags: readonly string[] = [],
): Promise<void> {
  mkdirSync(folder, { recursive: true })
  const application = { name: 'application', private: true, type: 'module' }
  writeFileSync(join(folder, 'package.json'), JSON.stringify(application))
  const quietly = ['--silent', '--no-audit', '--no-fund', '--prefer-offline']
  await run(['npm', 'install', '--prefix', folder, ...quietly, ...flags, ...packages])
}

async function run(command: readonly string[]): Promise<void> {
  const { exitCode, output } = await runToEnd(command)
  if (exitCode !== 0) throw new Error(output)
}
