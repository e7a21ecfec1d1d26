import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;
import org.objectweb.asm.AnnotationVisitor;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.Label;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;

/**
 * Takes out of compiled classes what only a debugger reads: names of local variables, and all that describes classes which no program can name: those
 * that the compiler made, and those of the packages below dev.godwit. Kotlin's compiler has no option for it, as javac has. Lines stay, for stack
 * traces, and so does what compilers of programs read.
 */
final class Slim {
    public static void main(String[] args) throws IOException {
        try (Stream<Path> files = Files.walk(Path.of(args[0]))) {
            for (Path file : (Iterable<Path>) files.filter(f -> f.toString().endsWith(".class"))::iterator) {
                ClassWriter out = new ClassWriter(0); // a fresh constant pool: without what nothing names any more
                new ClassReader(Files.readAllBytes(file)).accept(new Slimmer(out), 0);
                Files.write(file, out.toByteArray());
            }
        }
    }

    private static final class Slimmer extends ClassVisitor {
        /** The compiler made it: of a lambda, or of the state of a suspended function. */
        private boolean made;

        /** Programs cannot name it. */
        private boolean inner;

        Slimmer(ClassVisitor out) {
            super(Opcodes.ASM9, out);
        }

        @Override
        public void visit(int version, int access, String name, String signature, String superName, String[] interfaces) {
            made = name.matches(".*\\$\\d+");
            inner = made || name.matches("dev/godwit/[a-z]+/.*");
            super.visit(version, access, name, made ? null : signature, superName, interfaces);
        }

        @Override
        public AnnotationVisitor visitAnnotation(String name, boolean visible) {
            boolean debug = name.equals("Lkotlin/coroutines/jvm/internal/DebugMetadata;") || inner && name.equals("Lkotlin/Metadata;");
            return debug ? null : super.visitAnnotation(name, visible);
        }

        @Override
        public void visitOuterClass(String owner, String method, String descriptor) {
            if (!made) super.visitOuterClass(owner, method, descriptor);
        }

        @Override
        public MethodVisitor visitMethod(int access, String name, String descriptor, String signature, String[] exceptions) {
            boolean hidden = made || (access & (Opcodes.ACC_PRIVATE | Opcodes.ACC_SYNTHETIC)) != 0;
            return new MethodVisitor(Opcodes.ASM9, super.visitMethod(access, name, descriptor, hidden ? null : signature, exceptions)) {
                @Override
                public void visitLocalVariable(String variable, String type, String signature, Label start, Label end, int index) {}

                @Override
                public AnnotationVisitor visitParameterAnnotation(int parameter, String name, boolean visible) {
                    return hidden ? null : super.visitParameterAnnotation(parameter, name, visible);
                }

                @Override
                public AnnotationVisitor visitAnnotation(String name, boolean visible) {
                    return hidden ? null : super.visitAnnotation(name, visible);
                }
            };
        }
    }
}
