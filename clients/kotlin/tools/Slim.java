import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.Type;
import org.objectweb.asm.commons.ClassRemapper;
import org.objectweb.asm.commons.SimpleRemapper;
import org.objectweb.asm.tree.AbstractInsnNode;
import org.objectweb.asm.tree.AnnotationNode;
import org.objectweb.asm.tree.ClassNode;
import org.objectweb.asm.tree.FieldInsnNode;
import org.objectweb.asm.tree.FieldNode;
import org.objectweb.asm.tree.FrameNode;
import org.objectweb.asm.tree.InsnList;
import org.objectweb.asm.tree.InsnNode;
import org.objectweb.asm.tree.IntInsnNode;
import org.objectweb.asm.tree.JumpInsnNode;
import org.objectweb.asm.tree.LabelNode;
import org.objectweb.asm.tree.MethodInsnNode;
import org.objectweb.asm.tree.MethodNode;
import org.objectweb.asm.tree.TableSwitchInsnNode;
import org.objectweb.asm.tree.TypeInsnNode;
import org.objectweb.asm.tree.VarInsnNode;

/**
 * Makes compiled classes smaller without a change of what they do. Kotlin's compiler has no options for it. Lines stay, for stack traces, and so does
 * what compilers of programs read.
 *
 * <p>The first argument is the folder of classes. The others are the classes that another library of ours is compiled against, as patterns: they keep
 * what describes them.
 */
final class Slim implements Opcodes {
    private static final String CONTINUATION = "kotlin/coroutines/jvm/internal/ContinuationImpl";
    private static final String METADATA = "Lkotlin/Metadata;";
    private static final String NEXT = "Lkotlin/coroutines/Continuation;";

    /** What the class of a package is called that its functions share. */
    private static final String SHARED = "/Suspended";

    private final Map<String, ClassNode> classes = new TreeMap<>();
    private final List<String> shared;

    private Slim(List<String> shared) {
        this.shared = shared;
    }

    public static void main(String[] args) throws IOException {
        Slim slim = new Slim(List.of(args).subList(1, args.length));
        Path folder = Path.of(args[0]);
        List<Path> files;
        try (Stream<Path> all = Files.walk(folder)) {
            files = all.filter(f -> f.toString().endsWith(".class")).toList();
        }
        for (Path file : files) {
            ClassNode c = new ClassNode();
            new ClassReader(Files.readAllBytes(file)).accept(c, 0);
            slim.classes.put(c.name, c);
        }
        slim.dropDescriptions();
        slim.dropCompanionsOfConstants();
        slim.shareContinuations();
        for (Path file : files) Files.delete(file);
        for (ClassNode c : slim.classes.values()) {
            ClassWriter out = new ClassWriter(0); // a fresh constant pool: without what nothing names any more
            c.accept(out);
            Files.write(folder.resolve(c.name + ".class"), out.toByteArray());
        }
    }

    /**
     * Takes out what only a debugger reads, and all that describes classes which no program can name: those that the compiler made, and those of the
     * packages below dev.godwit.
     */
    private void dropDescriptions() {
        for (ClassNode c : classes.values()) {
            boolean made = c.name.matches(".*\\$\\d+");
            boolean hidden = made || c.name.matches("dev/godwit/(?!backend/)[a-z]+/.*");
            boolean described = !hidden || shared.stream().anyMatch(c.name::matches);
            drop(c.invisibleAnnotations, "Lkotlin/coroutines/jvm/internal/DebugMetadata;");
            drop(c.visibleAnnotations, "Lkotlin/coroutines/jvm/internal/DebugMetadata;");
            if (!described) drop(c.visibleAnnotations, METADATA);
            if (!described) c.signature = null;
            if (made) {
                c.outerClass = null;
                c.outerMethod = null;
                c.outerMethodDesc = null;
            }
            for (FieldNode f : c.fields) {
                if (described && (f.access & (ACC_PRIVATE | ACC_SYNTHETIC)) == 0) continue;
                f.signature = null;
                f.invisibleAnnotations = null;
            }
            for (MethodNode m : c.methods) {
                m.localVariables = null;
                if (described && (m.access & (ACC_PRIVATE | ACC_SYNTHETIC)) == 0) continue;
                m.signature = null;
                m.invisibleAnnotations = null;
                m.invisibleParameterAnnotations = null;
            }
        }
    }

    private static void drop(List<AnnotationNode> annotations, String name) {
        if (annotations != null) annotations.removeIf(a -> a.desc.equals(name));
    }

    /**
     * A companion that has nothing but constants is never read: the compiler has put their values where they are used. Where a class is described, its
     * companion is too, and stays: D8 misses it otherwise.
     */
    private void dropCompanionsOfConstants() {
        for (ClassNode c : List.copyOf(classes.values())) {
            ClassNode companion = classes.get(c.name + "$Companion");
            boolean described = c.visibleAnnotations != null && c.visibleAnnotations.stream().anyMatch(a -> a.desc.equals(METADATA));
            if (companion == null || described || !companion.fields.isEmpty() || !companion.interfaces.isEmpty()) continue;
            if (!companion.superName.equals("java/lang/Object") || companion.methods.stream().anyMatch(m -> !m.name.equals("<init>"))) continue;
            String desc = "L" + companion.name + ";";
            c.fields.removeIf(f -> f.desc.equals(desc));
            for (MethodNode m : c.methods) {
                for (AbstractInsnNode i : m.instructions.toArray()) {
                    if (!(i instanceof FieldInsnNode put && put.desc.equals(desc))) continue;
                    if (put.getOpcode() != PUTSTATIC) throw new IllegalStateException(c.name + "." + m.name + " reads its companion, which has nothing");
                    take(m.instructions, put);
                }
            }
            c.methods.removeIf(m -> m.name.equals("<clinit>") && Stream.of(m.instructions.toArray()).noneMatch(i -> i.getOpcode() >= 0 && i.getOpcode() != RETURN));
            for (ClassNode other : classes.values()) other.innerClasses.removeIf(i -> i.name.equals(companion.name));
            classes.remove(companion.name);
        }
    }

    /** Takes out the making of a companion, from the instruction "new" on. */
    private static void take(InsnList instructions, AbstractInsnNode last) {
        AbstractInsnNode i = last;
        while (i.getOpcode() != NEW) {
            AbstractInsnNode before = i.getPrevious();
            if (i.getOpcode() >= 0) instructions.remove(i);
            i = before;
        }
        instructions.remove(i);
    }

    /**
     * The compiler makes a class for each suspended function, which differ in the function that they call. Here those of a package share one, which
     * has a number for the function. A function takes such an object for its own only where the topmost bit of its label is set, which is so only while
     * it is called for the function that made it.
     */
    private void shareContinuations() {
        Map<String, List<ClassNode>> packages = new TreeMap<>();
        for (ClassNode c : classes.values()) {
            boolean earlier = c.name.endsWith(SHARED); // of a build before; where functions were compiled again, it is replaced
            if (c.superName.equals(CONTINUATION) && !earlier && plain(resumption(c))) packages.computeIfAbsent(c.name.substring(0, c.name.lastIndexOf('/')), p -> new ArrayList<>()).add(c);
        }
        Map<String, String> renamed = new HashMap<>();
        Map<String, Integer> numbers = new HashMap<>();
        List<ClassNode> made = new ArrayList<>();
        packages.forEach((folder, all) -> {
            ClassNode one = shared(folder + SHARED, all);
            made.add(one);
            for (ClassNode c : all) {
                renamed.put(c.name, one.name);
                classes.remove(c.name);
            }
            for (int i = 0; i < all.size(); i++) numbers.put(all.get(i).name, i);
        });
        for (ClassNode c : made) classes.put(c.name, c);
        for (ClassNode c : List.copyOf(classes.values())) {
            c.innerClasses.removeIf(i -> renamed.containsKey(i.name));
            for (MethodNode m : c.methods) construct(m, numbers);
            ClassNode now = new ClassNode();
            c.accept(new ClassRemapper(now, new SimpleRemapper(renamed)));
            classes.put(c.name, now);
        }
    }

    /** Has a function say its number where it makes its object. */
    private static void construct(MethodNode m, Map<String, Integer> numbers) {
        for (AbstractInsnNode i : m.instructions.toArray()) {
            if (!(i instanceof MethodInsnNode call && call.name.equals("<init>") && numbers.containsKey(call.owner))) continue;
            if (Type.getArgumentCount(call.desc) == 1) m.instructions.insertBefore(before(call), new InsnNode(ACONST_NULL));
            m.instructions.insertBefore(call, new IntInsnNode(BIPUSH, numbers.get(call.owner)));
            call.desc = "(Ljava/lang/Object;" + NEXT + "I)V";
            m.maxStack += 2;
        }
    }

    /** The instruction that pushes the completion: of a static function, the constructor's only argument. */
    private static AbstractInsnNode before(MethodInsnNode call) {
        AbstractInsnNode push = call.getPrevious();
        if (!(push instanceof VarInsnNode)) throw new IllegalStateException("a constructor's argument is no variable");
        return push;
    }

    private static ClassNode shared(String name, List<ClassNode> all) {
        if (all.size() > Byte.MAX_VALUE) throw new IllegalStateException(name + " is for too many functions");
        ClassNode one = new ClassNode();
        one.version = V1_8;
        one.access = ACC_FINAL | ACC_SUPER | ACC_SYNTHETIC;
        one.name = name;
        one.superName = CONTINUATION;
        Map<String, String> fields = new TreeMap<>(Map.of("number", "I", "owner", "Ljava/lang/Object;"));
        for (ClassNode c : all) for (FieldNode f : c.fields) if (!f.name.equals("this$0")) fields.put(f.name, f.desc);
        fields.forEach((field, desc) -> one.fields.add(new FieldNode(0, field, desc, null, null)));
        one.methods.add(constructor(name));
        one.methods.add(invoke(name, all));
        return one;
    }

    private static MethodNode constructor(String name) {
        MethodNode m = new MethodNode(0, "<init>", "(Ljava/lang/Object;" + NEXT + "I)V", null, null);
        m.visitVarInsn(ALOAD, 0);
        m.visitVarInsn(ALOAD, 2);
        m.visitMethodInsn(INVOKESPECIAL, CONTINUATION, "<init>", "(" + NEXT + ")V", false);
        m.visitVarInsn(ALOAD, 0);
        m.visitVarInsn(ALOAD, 1);
        m.visitFieldInsn(PUTFIELD, name, "owner", "Ljava/lang/Object;");
        m.visitVarInsn(ALOAD, 0);
        m.visitVarInsn(ILOAD, 3);
        m.visitFieldInsn(PUTFIELD, name, "number", "I");
        m.visitInsn(RETURN);
        m.visitMaxs(2, 4);
        return m;
    }

    /** Goes on with the function: the bodies of the compiler's classes, one behind the other. */
    private static MethodNode invoke(String name, List<ClassNode> all) {
        MethodNode one = new MethodNode(ACC_PUBLIC | ACC_FINAL, "invokeSuspend", "(Ljava/lang/Object;)Ljava/lang/Object;", null, null);
        LabelNode[] labels = Stream.generate(LabelNode::new).limit(all.size()).toArray(LabelNode[]::new);
        one.instructions.add(new VarInsnNode(ALOAD, 0));
        one.instructions.add(new FieldInsnNode(GETFIELD, name, "number", "I"));
        one.instructions.add(new TableSwitchInsnNode(0, all.size() - 1, labels[0], labels));
        for (int i = 0; i < labels.length; i++) {
            one.instructions.add(labels[i]);
            one.instructions.add(new FrameNode(F_SAME, 0, null, 0, null));
            MethodNode body = resumption(all.get(i));
            add(body, one.instructions, name);
            one.maxStack = Math.max(one.maxStack, body.maxStack);
        }
        one.maxLocals = 2;
        return one;
    }

    private static MethodNode resumption(ClassNode c) {
        return c.methods.stream().filter(m -> m.name.equals("invokeSuspend")).findFirst().orElseThrow();
    }

    /** Whether a body only calls its function. That of a function which returns a value class does more. */
    private static boolean plain(MethodNode body) {
        return Stream.of(body.instructions.toArray()).noneMatch(i -> i instanceof JumpInsnNode || i instanceof VarInsnNode v && v.var > 1);
    }

    private static void add(MethodNode body, InsnList to, String name) {
        for (AbstractInsnNode i : body.instructions.toArray()) {
            if (i.getOpcode() < 0) continue; // lines, which no trace shows
            body.instructions.remove(i);
            to.add(i);
            if (i instanceof FieldInsnNode f && f.name.equals("this$0")) {
                to.add(new TypeInsnNode(CHECKCAST, Type.getType(f.desc).getInternalName()));
                f.name = "owner";
                f.desc = "Ljava/lang/Object;";
            }
        }
    }
}
