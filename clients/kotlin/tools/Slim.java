import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.objectweb.asm.AnnotationVisitor;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.FieldVisitor;
import org.objectweb.asm.Label;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;

/**
 * Takes descriptions out of compiled classes: what only a debugger reads, and all that describes what no program can name. Kotlin's compiler has no
 * option for it, as javac has. The code stays as it is, and so do lines, for stack traces, and what compilers of programs read.
 *
 * <p>The argument is the folder of classes. Classes that have nothing but constants of ours go: the compiler has put their
 * values where they are used.
 */
final class Slim {
    public static void main(String[] args) throws IOException {
        List<Path> classes;
        try (Stream<Path> files = Files.walk(Path.of(args[0]))) {
            classes = files.filter(f -> f.toString().endsWith(".class")).toList();
        }
        for (Path file : classes) {
            ClassWriter out = new ClassWriter(0); // a fresh constant pool: without what nothing names any more
            Slimmer slimmer = new Slimmer(out);
            new ClassReader(Files.readAllBytes(file)).accept(slimmer, 0);
            if (slimmer.empty) Files.delete(file);
            else Files.write(file, out.toByteArray());
        }
    }

    private static final class Slimmer extends ClassVisitor {
        /** It has nothing but constants that no program can name. */
        private boolean empty = true;

        /** The compiler made it: of a lambda, or of the state of a suspended function. */
        private boolean made;

        /** No program can name it: it is made, or in a package that is not for programs. */
        private boolean hidden;

        Slimmer(ClassVisitor out) {
            super(Opcodes.ASM9, out);
        }

        private boolean hidden(int access) {
            return hidden || (access & (Opcodes.ACC_PRIVATE | Opcodes.ACC_SYNTHETIC)) != 0;
        }

        @Override
        public void visit(int version, int access, String name, String signature, String superName, String[] interfaces) {
            made = name.matches(".*\\$\\d+");
            hidden = made || !name.matches("dev/godwit/((backend|grpc|messaging|push)/)?[^/]+");
            if ((access & Opcodes.ACC_INTERFACE) != 0) empty = false;
            super.visit(version, access, name, hidden ? null : signature, superName, interfaces);
        }

        @Override
        public AnnotationVisitor visitAnnotation(String name, boolean visible) {
            boolean debug = name.equals("Lkotlin/coroutines/jvm/internal/DebugMetadata;") || hidden && name.equals("Lkotlin/Metadata;");
            return debug ? null : super.visitAnnotation(name, visible);
        }

        @Override
        public void visitOuterClass(String owner, String method, String descriptor) {
            if (!made) super.visitOuterClass(owner, method, descriptor);
        }

        @Override
        public FieldVisitor visitField(int access, String name, String descriptor, String signature, Object value) {
            boolean unnamed = hidden(access);
            if (value == null || !unnamed) empty = false;
            return new FieldVisitor(Opcodes.ASM9, super.visitField(access, name, descriptor, unnamed ? null : signature, value)) {
                @Override
                public AnnotationVisitor visitAnnotation(String name, boolean visible) {
                    return unnamed && !visible ? null : super.visitAnnotation(name, visible);
                }
            };
        }

        @Override
        public MethodVisitor visitMethod(int access, String name, String descriptor, String signature, String[] exceptions) {
            boolean unnamed = hidden(access);
            empty = false;
            return new MethodVisitor(Opcodes.ASM9, super.visitMethod(access, name, descriptor, unnamed ? null : signature, exceptions)) {
                @Override
                public void visitLocalVariable(String variable, String type, String signature, Label start, Label end, int index) {}

                @Override
                public AnnotationVisitor visitAnnotation(String name, boolean visible) {
                    return unnamed && !visible ? null : super.visitAnnotation(name, visible);
                }

                @Override
                public AnnotationVisitor visitParameterAnnotation(int parameter, String name, boolean visible) {
                    return unnamed && !visible ? null : super.visitParameterAnnotation(parameter, name, visible);
                }
            };
        }
    }
}
