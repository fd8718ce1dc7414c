/** Packages whose code the scripts of the site contain. The build fails if such a package is missing here. The notices list all of them. */
export const sitePackages = [
  '@docsearch/css',
  '@vue/reactivity',
  '@vue/runtime-core',
  '@vue/runtime-dom',
  '@vue/shared',
  '@vueuse/core',
  '@vueuse/integrations',
  '@vueuse/shared',
  'focus-trap',
  'mark.js',
  'minisearch',
  'tabbable',
  'vitepress',
  'vue',
]

/** Vite plug-in that fails if a script of the site contains code of a package that is not listed. */
export function onlyListedPackages() {
  return {
    name: 'listed-packages',
    apply: (_config: unknown, { isSsrBuild = false }: { readonly isSsrBuild?: boolean }) => !isSsrBuild,
    generateBundle(
      _options: unknown,
      bundle: Readonly<Record<string, { readonly moduleIds?: readonly string[] }>>,
    ) {
      const names = Object.values(bundle).flatMap(({ moduleIds = [] }) =>
        moduleIds.flatMap((id) => /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(id)?.[1] ?? []),
      )
      const unlisted = [...new Set(names)].filter((name) => !sitePackages.includes(name))
      if (unlisted.length > 0)
        throw new Error(`add these packages to cmd/dev/docs/packages.ts: ${unlisted.join(', ')}`)
    },
  }
}
