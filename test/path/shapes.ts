import { dirname, relative, resolve } from 'node:path'
import ts from '@typescript/typescript6'
import { type FunctionNode, root, type SourceFunction, type Sources } from './sources.ts'

const depthMax = 2

/** A named type of the repository that holds the event or its delivery. */
export interface Shape {
  readonly name: string
  readonly file: string
}

/**
 * Returns the named types of the repository that hold the event or its delivery and are handed to one of the called functions, or declared
 * as its result. A type holds the event if it has, at most two levels deep, an event's id (a property of type `EventId`) or a body (one
 * named `body` or `payload` that is text or bytes, unless a `status` beside it says that it is a response). Collections, promises, unions
 * and picked types count as what they are made of.
 */
export function findShapes(called: readonly SourceFunction[], { parsed }: Pick<Sources, 'parsed'>): Shape[] {
  const files = [...new Set(called.map(({ file }) => resolve(root, file)))]
  const checker = createProgram(files, parsed).getTypeChecker()
  const shapes = new Map<string, Shape>()
  for (const { node } of called)
    for (const shape of shapesOf(node, checker)) shapes.set(`${shape.file} ${shape.name}`, shape)
  return [...shapes.values()]
}

/** Creates a program of the repository's own files. Types of packages are unknown in it, which takes seconds off. */
function createProgram(files: readonly string[], parsed: Sources['parsed']): ts.Program {
  const options: ts.CompilerOptions = {
    target: ts.ScriptTarget.ESNext,
    module: ts.ModuleKind.Preserve,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
    lib: ['lib.esnext.d.ts'],
    types: [],
    allowImportingTsExtensions: true,
    noEmit: true,
    strict: true,
    exactOptionalPropertyTypes: true,
  }
  const defaults = ts.createCompilerHost(options)
  const host: ts.CompilerHost = {
    ...defaults,
    getSourceFile: (name, ...more) => parsed.get(name) ?? defaults.getSourceFile(name, ...more),
    resolveModuleNameLiterals: (names, from) =>
      names.map(({ text }) => ({ resolvedModule: resolveOwn(text, from) })),
  }
  return ts.createProgram(files, options, host)
}

function resolveOwn(name: string, from: string): ts.ResolvedModuleFull | undefined {
  if (!/^[.#].*\.tsx?$/.test(name)) return undefined
  const resolvedFileName = name.startsWith('#') ? resolve(root, name.slice(1)) : resolve(dirname(from), name)
  return { resolvedFileName, extension: name.endsWith('x') ? ts.Extension.Tsx : ts.Extension.Ts }
}

function shapesOf(called: FunctionNode, checker: ts.TypeChecker): Shape[] {
  const handed = called.parameters.map((parameter) => checker.getTypeAtLocation(parameter))
  if (called.type) handed.push(checker.getTypeFromTypeNode(called.type))
  return handed
    .flatMap((type) => elementsOf(type, checker))
    .flatMap((type) => {
      const shape = shapeOf(type)
      return shape && holdsEvent(type, checker, depthMax) ? [shape] : []
    })
}

/** Returns a type, or what it is a collection, a promise, a union or a mapped type (`Pick`) of. */
function elementsOf(type: ts.Type, checker: ts.TypeChecker): ts.Type[] {
  if (shapeOf(type)) return [type]
  const inner = [
    ...(type.aliasTypeArguments ?? []),
    ...(type.isUnionOrIntersection() ? type.types : []),
    ...(isReference(type) ? checker.getTypeArguments(type) : []),
  ]
  return inner.filter((each) => each !== type).flatMap((each) => elementsOf(each, checker))
}

function isReference(type: ts.Type): type is ts.TypeReference {
  return (type.flags & ts.TypeFlags.Object) !== 0 && 'target' in type
}

/** Returns the declared name of a type of `cmd` or `internal`; undefined for any other type. */
function shapeOf(type: ts.Type): Shape | undefined {
  for (const symbol of [type.aliasSymbol, type.symbol]) {
    const declaration = symbol?.declarations?.find(
      (each) =>
        ts.isInterfaceDeclaration(each) || ts.isTypeAliasDeclaration(each) || ts.isClassDeclaration(each),
    )
    if (!symbol || !declaration) continue
    const file = relative(root, declaration.getSourceFile().fileName)
    if (/^(cmd|internal)\//.test(file)) return { name: symbol.name, file }
  }
  return undefined
}

function holdsEvent(type: ts.Type, checker: ts.TypeChecker, depth: number): boolean {
  if (type.isUnion()) return type.types.some((each) => holdsEvent(each, checker, depth))
  if ((type.flags & ts.TypeFlags.Object) === 0 && !type.isIntersection()) return false
  if (isReference(type) && !shapeOf(type))
    return checker.getTypeArguments(type).some((each) => holdsEvent(each, checker, depth))
  const properties = checker.getPropertiesOfType(type).map((property) => ({
    name: property.name,
    type: checker.getTypeOfSymbol(property),
  }))
  const isAnswer = properties.some(({ name }) => name === 'status')
  if (!isAnswer && properties.some((property) => isHeld(property, checker))) return true
  return (
    depth > 0 &&
    properties.some((property) =>
      elementsOf(property.type, checker).some((each) => holdsEvent(each, checker, depth - 1)),
    )
  )
}

function isHeld({ name, type }: { name: string; type: ts.Type }, checker: ts.TypeChecker): boolean {
  const text = checker.typeToString(type)
  return text === 'EventId' || (/^(body|payload)$/.test(name) && /^(string|Uint8Array)/.test(text))
}
